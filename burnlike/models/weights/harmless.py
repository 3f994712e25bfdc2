"""Keys of a `config.json` that change nothing that a model computes in evaluation. Imports no torch."""

HARMLESS: dict[str, tuple[str, ...]] = {
    "They say who wrote the file, with what, and whose it is.": (
        *("_commit_hash", "_name_or_path", "_num_labels", "finetuning_task", "is_llama_config", "model_type"),
        *("name_or_path", "task_specific_params", "tokenizer_class", "transformers.js_config", "transformers_version"),
        *("unsloth_fixed", "unsloth_version"),
        "architectures",  # compared with those of the table before
        *("dtype", "torch_dtype"),  # read where weights are
    ),
    "They say what a call returns beside the same logits, or by which program it computes them.": (
        *("_attn_implementation_autoset", "_flash_attn_2_enabled", "attn_implementation", "chunk_size_feed_forward"),
        *("experts_implementation", "gradient_checkpointing", "output_attentions", "output_hidden_states"),
        *("output_past", "output_router_logits", "return_dict", "return_dict_in_generate", "output_scores"),
        *("output_logits", "tie_last_hidden_states", "torchscript", "use_bfloat16", "use_cache", "tf_legacy_loss"),
    ),
    "They name tokens, or how `generate` of transformers draws them; ours gets that in a call.": (
        *("assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind", "bad_words_ids"),
        *("begin_suppress_tokens", "bos_token_id", "cache_config", "cache_implementation", "compile_config"),
        *("constraints", "custom_generate", "decoder_start_token_id", "disable_compile", "diversity_penalty"),
        *("do_sample", "dola_layers", "early_stopping", "encoder_no_repeat_ngram_size"),
        *("encoder_repetition_penalty", "eos_token_id", "epsilon_cutoff", "eta_cutoff"),
        *("exponential_decay_length_penalty", "force_words_ids", "forced_bos_token_id", "forced_decoder_ids"),
        *("forced_eos_token_id", "guidance_scale", "is_assistant", "length_penalty", "low_memory", "max_length"),
        *("max_matching_ngram_size", "max_new_tokens", "max_time", "min_length", "min_new_tokens", "min_p"),
        *("no_repeat_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule", "num_beam_groups"),
        *("num_beams", "num_return_sequences", "pad_token_id", "penalty_alpha", "prefill_chunk_size", "prefix"),
        *("prompt_lookup_num_tokens", "remove_invalid_values", "renormalize_logits", "repetition_penalty"),
        *("sep_token_id", "sequence_bias", "stop_strings", "suppress_tokens", "target_lookbehind", "temperature"),
        *("token_healing", "top_h", "top_k", "top_p", "typical_p", "watermarking_config"),
    ),
    "They name classes or choose the loss; the number of classes is read.": (
        *("id2label", "label2id", "num_labels", "problem_type"),
    ),
    "Training began with them, or has them alone.": (
        *("initializer_factor", "initializer_range", "neftune_noise_alpha"),
    ),
}
"""Why keys are harmless -> the keys."""

KEYS = frozenset(key for keys in HARMLESS.values() for key in keys)
