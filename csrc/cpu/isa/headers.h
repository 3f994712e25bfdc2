// What the kernel bodies need, included before the target pragmas.
#pragma once

#define BURNLIKE_QUOTED(name) #name
#define BURNLIKE_FILE(op) BURNLIKE_QUOTED(op.h)
#include "ops.inc"
#undef BURNLIKE_FILE
