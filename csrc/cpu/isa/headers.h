// What the kernel bodies need, included before the target pragmas.
#pragma once

#include "../kernels.h"
#include "burnlike/attention.h"
#include "burnlike/bias_gelu.h"
#include "burnlike/blockwise.h"
#include "burnlike/convert.h"
#include "burnlike/crc32.h"
#include "burnlike/cross_entropy.h"
#include "burnlike/dropout_add.h"
#include "burnlike/functions.h"
#include "burnlike/glu.h"
#include "burnlike/masked_softmax.h"
#include "burnlike/norms.h"
#include "burnlike/random.h"
#include "burnlike/rotary.h"
