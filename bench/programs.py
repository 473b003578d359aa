"""Small training programs for sound.py: today's architectures with random weights, by configuration.

PROGRAMS gives by name a function that makes an Example: a model, the tensors that it is called with and its loss. Those
whose package is missing, or too old to know the architecture, raise Missing.
"""
import dataclasses, inspect, math

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, LENGTH, WORDS = 2, 16, 96


class Missing(Exception):
    """A package that a program needs is not there."""


class Example:
    """A model, what it is called with, and the loss. `pads` says that the inputs have an attention mask, `optimizer` makes
    one of parameters, and `train` gives the function that trains one step (loops.py)."""

    def __init__(self, model, inputs, loss=None, pads=False, images=False, optimizer=None, train=None):
        self.model, self.inputs, self.loss, self.pads, self.images = model, inputs, loss or default_loss, pads, images
        self.optimizer, self.train = optimizer, train


def tensors(v):
    if isinstance(v, torch.Tensor):
        yield v
    elif isinstance(v, dict):
        for x in v.values():
            yield from tensors(x)
    elif isinstance(v, (list, tuple)):
        for x in v:
            yield from tensors(x)


def default_loss(model, inputs):
    """The model's own loss, or one of all its results."""
    out = model(*inputs) if isinstance(inputs, tuple) else model(**inputs)
    if getattr(out, "loss", None) is not None:
        return out.loss.mean()
    return sum(t.float().square().mean() for t in tensors(out) if t.is_floating_point() and t.requires_grad)


def words(*shape):
    return torch.randint(5, WORDS, shape or (BATCH, LENGTH))


# --- transformers -----------------------------------------------------------------------------------------------------

# What configurations call their sizes. A class gets those that it knows and whose default is a number.
SIZES = dict(
    vocab_size=WORDS, hidden_size=32, d_model=32, n_embd=32, dim=32, embed_dim=32, encoder_embed_dim=32, hidden_dim=32,
    num_hidden_layers=2, num_layers=2, n_layer=2, n_layers=2, encoder_layers=2, decoder_layers=2, num_encoder_layers=2,
    num_decoder_layers=2, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2,
    num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_num_attention_heads=4, decoder_num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    intermediate_size=64, encoder_ffn_dim=64, decoder_ffn_dim=64, d_ff=64, ffn_dim=64, d_kv=8, d_inner=64,
    max_position_embeddings=64, n_positions=64, image_size=32, patch_size=8, num_channels=3,
    num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
    n_shared_experts=1, shared_expert_intermediate_size=32, projection_dim=32, use_cache=False, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, state_size=8, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, expand=2,
)


def fields(config_class):
    if dataclasses.is_dataclass(config_class):
        return {f.name: f.default for f in dataclasses.fields(config_class)}
    return {n: p.default for n, p in inspect.signature(config_class.__init__).parameters.items()}


def small(config_class, over):
    """A configuration of small sizes; `over` has other values, of parts as dicts by the part's name."""
    import transformers
    known = fields(config_class)
    given = {n: v for n, v in SIZES.items() if n in known and (known[n] is None or isinstance(known[n], (int, bool)))}
    for n, part in getattr(config_class, "sub_configs", {}).items():
        if inspect.isclass(part) and part.__name__ != "AutoConfig":
            given[n] = small(part, over.get(n, {})).to_dict()
        elif n in over:
            kind = transformers.AutoConfig.for_model(over[n]["model_type"]).__class__
            given[n] = small(kind, {k: v for k, v in over[n].items() if k != "model_type"}).to_dict()
    given.update({n: v for n, v in over.items() if n not in given or not isinstance(v, dict)})
    return config_class(**given)


def text(c):
    return dict(input_ids=words(), attention_mask=torch.ones(BATCH, LENGTH, dtype=torch.long))


def causal(c):
    return dict(text(c), labels=words())


def tokens(c):
    return dict(input_ids=words(), labels=words())


def sequences(c):
    return dict(causal(c), labels=words(BATCH, 8))


def image(c):
    size = getattr(c, "image_size", 32)
    size = (size, size) if isinstance(size, int) else size
    return dict(pixel_values=torch.randn(BATCH, getattr(c, "num_channels", 3), *size))


def image_of(size, **more):
    return lambda c: dict(pixel_values=torch.randn(BATCH, 3, size, size), **more)


def labelled(c):
    return dict(image(c), labels=torch.tensor([0, 1]))


def boxes(size):
    def inputs(c):
        targets = [dict(class_labels=torch.tensor([1, 0]), boxes=torch.tensor([[.3, .3, .2, .4], [.6, .5, .3, .3]]))
                   for _ in range(BATCH)]
        return dict(pixel_values=torch.randn(BATCH, 3, size, size), labels=targets)
    return inputs


def pairs(c):
    v = c.vision_config
    return dict(text(c), pixel_values=torch.randn(BATCH, 3, v.image_size, v.image_size), return_loss=True)


def wave(n, **more):
    return lambda c: dict(input_values=torch.randn(BATCH, n), **more)


def spectrum(bins, n, **more):
    return lambda c: dict(input_features=torch.randn(BATCH, n, bins), **more)


def with_images(size, count, **more):
    """Text with `count` words that stand for one image."""
    def inputs(c):
        t = causal(c)
        word = getattr(c, "image_token_id", None)
        word = c.image_token_index if word is None else word
        t["input_ids"][:, 1:1 + count] = word
        return dict(t, pixel_values=torch.randn(BATCH, 3, size, size), **more)
    return inputs


VISION = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
LINEAR = ["linear_attention", "full_attention"]
LOCAL = ["sliding_attention", "full_attention"]
ROTARY = dict(rope_type="default", rope_theta=10000.0)
LATENT = dict(q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_group=2, topk_group=1)
MAMBA2 = dict(mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=1, mamba_d_ssm=64, mamba_chunk_size=8)

# Class, inputs, sizes of its own.
TRANSFORMERS = {
    # those of the first trial
    "qwen3-next": ("Qwen3NextForCausalLM", causal, dict(
        layer_types=LINEAR, linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8)),
    "glm4-moe": ("Glm4MoeForCausalLM", causal, dict(n_group=1, topk_group=1, first_k_dense_replace=1)),
    "minimax": ("MiniMaxForCausalLM", causal, dict(layer_types=LINEAR, block_size=8)),
    "modernbert": ("ModernBertForMaskedLM", causal, dict(local_attention=8, global_attn_every_n_layers=2)),
    "longformer": ("LongformerForMaskedLM", causal, dict(attention_window=[4, 4])),
    "mask2former": ("Mask2FormerForUniversalSegmentation", lambda c: dict(
        pixel_values=torch.randn(BATCH, 3, 64, 64), mask_labels=[(torch.rand(2, 64, 64) > .5).float() for _ in range(BATCH)],
        class_labels=[torch.tensor([0, 1]) for _ in range(BATCH)]), dict(
        backbone_config=dict(model_type="swin", embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4,
                             patch_size=4, out_features=["stage1", "stage2", "stage3", "stage4"]),
        feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32, dim_feedforward=32,
        encoder_layers=1, decoder_layers=2, num_queries=4, num_labels=3, train_num_points=16)),
    "falcon-h1": ("FalconH1ForCausalLM", causal, dict(MAMBA2)),
    "rwkv": ("RwkvForCausalLM", tokens, dict(attention_hidden_size=32, context_length=64)),
    "olmo2": ("Olmo2ForCausalLM", causal, {}),
    "siglip": ("SiglipModel", pairs, dict(vision_config=dict(patch_size=8))),
    "dinov3": ("DINOv3ViTModel", image, dict(image_size=32, patch_size=8)),
    # language models
    "llama": ("LlamaForCausalLM", causal, {}),
    "deepseek-v3": ("DeepseekV3ForCausalLM", causal, dict(LATENT, first_k_dense_replace=1, head_dim=8, num_key_value_heads=4)),
    "qwen3-moe": ("Qwen3MoeForCausalLM", causal, dict(output_router_logits=True)),
    "gemma3": ("Gemma3ForCausalLM", causal, dict(layer_types=LOCAL, sliding_window=8, query_pre_attn_scalar=8)),
    "llama4": ("Llama4ForCausalLM", causal, dict(intermediate_size_mlp=64, attention_chunk_size=8)),
    "gpt-oss": ("GptOssForCausalLM", causal, dict(layer_types=LOCAL, sliding_window=8)),
    "mamba": ("MambaForCausalLM", tokens, dict(time_step_rank=4)),
    "mamba2": ("Mamba2ForCausalLM", tokens, dict(num_heads=8, head_dim=8, n_groups=1, chunk_size=8)),
    "bamba": ("BambaForCausalLM", causal, dict(MAMBA2, attn_layer_indices=[1])),
    "jamba": ("JambaForCausalLM", causal, dict(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
                                               expert_layer_offset=1, use_mamba_kernels=False, mamba_dt_rank=4)),
    "zamba2": ("Zamba2ForCausalLM", causal, dict(
        mamba_d_state=8, n_mamba_heads=8, mamba_headdim=8, mamba_ngroups=1, chunk_size=8, hybrid_layer_ids=[1],
        layer_types=["mamba", "hybrid"], num_mem_blocks=1, adapter_rank=8)),
    "phi3": ("Phi3ForCausalLM", causal, {}),
    "phi4": ("PhiForCausalLM", causal, {}),
    "smollm3": ("SmolLM3ForCausalLM", causal, {}),
    "nemotron": ("NemotronForCausalLM", causal, {}),
    "cohere2": ("Cohere2ForCausalLM", causal, dict(layer_types=LOCAL, sliding_window=8)),
    "granite-moe": ("GraniteMoeForCausalLM", causal, {}),
    "granite-hybrid": ("GraniteMoeHybridForCausalLM", causal, dict(
        layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_chunk_size=8,
        shared_intermediate_size=32)),
    "gpt2": ("GPT2LMHeadModel", causal, {}),
    "t5gemma": ("T5GemmaForConditionalGeneration", sequences, dict(
        encoder=dict(layer_types=LOCAL, sliding_window=8), decoder=dict(layer_types=LOCAL, sliding_window=8, cross_attention_hidden_size=32))),
    "bart": ("BartForConditionalGeneration", sequences, {}),
    "nllb-moe": ("NllbMoeForConditionalGeneration", sequences, dict(
        encoder_sparse_step=2, decoder_sparse_step=2, expert_capacity=16, num_experts=4)),
    "xlnet": ("XLNetLMHeadModel", causal, {}),
    "reformer": ("ReformerModelWithLMHead", causal, dict(
        attention_head_size=8, axial_pos_shape=[4, 4], axial_pos_embds_dim=[16, 16], feed_forward_size=64, attn_layers=["local", "lsh"],
        local_attn_chunk_length=4, lsh_attn_chunk_length=4, num_buckets=2, is_decoder=True, num_hashes=1, hash_seed=1)),
    # time series
    "informer": ("InformerForPrediction", lambda c: dict(
        past_values=torch.randn(BATCH, 24), past_time_features=torch.randn(BATCH, 24, 2), past_observed_mask=torch.ones(BATCH, 24),
        future_values=torch.randn(BATCH, 8), future_time_features=torch.randn(BATCH, 8, 2)), dict(
        prediction_length=8, context_length=16, lags_sequence=[1, 4, 8], num_time_features=2, distil=True)),
    "patchtst": ("PatchTSTForPrediction", lambda c: dict(
        past_values=torch.randn(BATCH, 16, 3), future_values=torch.randn(BATCH, 4, 3)), dict(
        num_input_channels=3, context_length=16, prediction_length=4, patch_length=4, patch_stride=4)),
    "timesfm": ("TimesFmModelForPrediction", lambda c: dict(
        past_values=[torch.randn(32), torch.randn(24)], freq=[0, 0], future_values=torch.randn(BATCH, 8)), dict(
        patch_length=8, context_length=32, horizon_length=8)),
    # speech and sound
    "moonshine": ("MoonshineForConditionalGeneration", lambda c: dict(input_values=torch.randn(BATCH, 2000), labels=words(BATCH, 8)),
                  dict(encoder_num_key_value_heads=4, decoder_num_key_value_heads=4)),
    "whisper": ("WhisperForConditionalGeneration", lambda c: dict(input_features=torch.randn(BATCH, 16, 32), labels=words(BATCH, 8)),
                dict(num_mel_bins=16, max_source_positions=16, max_target_positions=32, decoder_start_token_id=1, suppress_tokens=None,
                     begin_suppress_tokens=None)),
    "wav2vec2-bert": ("Wav2Vec2BertForCTC", spectrum(16, 24, labels=torch.randint(5, 20, (BATCH, 4))), dict(
        feature_projection_input_dim=16, conv_depthwise_kernel_size=3, ctc_zero_infinity=True)),
    "parakeet": ("ParakeetForCTC", spectrum(16, 64, labels=torch.randint(5, 20, (BATCH, 3)), attention_mask=torch.ones(BATCH, 64, dtype=torch.long)), dict(encoder_config=dict(
        num_mel_bins=16, subsampling_conv_channels=8, conv_kernel_size=3))),
    "encodec": ("EncodecModel", lambda c: dict(input_values=torch.randn(BATCH, 1, 640)), dict(
        num_filters=4, codebook_size=16, codebook_dim=16, hidden_size=16, upsampling_ratios=[4, 2], target_bandwidths=[24.0], sampling_rate=8000)),
    "dac": ("DacModel", lambda c: dict(input_values=torch.randn(BATCH, 1, 640)), dict(
        encoder_hidden_size=4, downsampling_ratios=[2, 4], decoder_hidden_size=16, n_codebooks=2, codebook_size=16, codebook_dim=4)),
    "mimi": ("MimiModel", lambda c: dict(input_values=torch.randn(BATCH, 1, 960)), dict(
        num_filters=4, hidden_size=16, upsampling_ratios=[4, 2], codebook_size=16, codebook_dim=16, vector_quantization_hidden_dimension=16,
        upsample_groups=16,
        num_quantizers=3, num_semantic_quantizers=1, sampling_rate=8000, frame_rate=500.0, head_dim=4, sliding_window=16)),
    # images and text
    "clip": ("CLIPModel", pairs, dict(text_config=dict(eos_token_id=2), vision_config=dict(patch_size=8))),
    "blip2": ("Blip2ForConditionalGeneration", with_images(32, 4), dict(
        qformer_config=dict(encoder_hidden_size=32), text_config=dict(model_type="opt", word_embed_proj_dim=32),
        num_query_tokens=4, image_token_index=4, image_token_id=4)),
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", lambda c: qwen_vl(c), dict(
        vision_config=dict(depth=2, embed_dim=32, hidden_size=32, num_heads=4, patch_size=4, spatial_merge_size=2, temporal_patch_size=2),
        text_config=dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2])),
        image_token_id=4, vision_start_token_id=3, vision_end_token_id=2)),
    "paligemma": ("PaliGemmaForConditionalGeneration", with_images(32, 4, token_type_ids=torch.tensor([5 * [0] + 11 * [1]] * BATCH)), dict(
        vision_config=dict(model_type="siglip_vision_model", patch_size=16), text_config=dict(model_type="gemma"), image_token_id=4,
        image_token_index=4)),
    "idefics3": ("Idefics3ForConditionalGeneration", lambda c: dict(
        with_images(32, 4)(c), pixel_values=torch.randn(BATCH, 1, 3, 32, 32)), dict(
        vision_config=dict(patch_size=8), text_config=dict(model_type="llama"), scale_factor=2, image_token_id=4)),
    # images
    "detr": ("DetrForObjectDetection", boxes(64), dict(backbone_config=dict(
        model_type="resnet", embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]),
        num_queries=5, num_labels=3)),
    "rt-detr": ("RTDetrForObjectDetection", boxes(64), dict(
        backbone_config=dict(model_type="rt_detr_resnet", embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
                             out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], d_model=16, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=32,
        encoder_ffn_dim=32, num_queries=6, num_labels=3, hidden_expansion=1.0, num_denoising=4)),
    "sam2": ("Sam2Model", lambda c: dict(
        pixel_values=torch.randn(1, 3, 64, 64), input_points=torch.tensor([[[[20., 30.]]]]), input_labels=torch.tensor([[[1]]])), dict(
        vision_config=dict(model_type="sam2_vision_model", backbone_config=dict(model_type="sam2_hiera_det_model", image_size=[64, 64], embed_dim_per_stage=[16, 32, 64, 128],
                                                num_attention_heads_per_stage=[1, 2, 4, 8], blocks_per_stage=[1, 1, 2, 1], hidden_size=16,
                                                window_size_per_stage=[4, 4, 4, 2], global_attention_blocks=[3], window_positional_embedding_background_size=[4, 4],
                                                patch_kernel_size=[7, 7], patch_stride=[4, 4], patch_padding=[3, 3]),
                           backbone_channel_list=[128, 64, 32, 16], backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]], fpn_hidden_size=32),
        prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=16, mask_input_channels=8),
        mask_decoder_config=dict(hidden_size=32, mlp_dim=32, num_hidden_layers=2, num_attention_heads=4, iou_head_hidden_dim=32))),
    "segformer": ("SegformerForSemanticSegmentation", image_of(64, labels=torch.randint(0, 3, (BATCH, 64, 64))), dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, num_labels=3)),
    "dpt": ("DPTForDepthEstimation", image_of(32), dict(
        neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=16, backbone_out_indices=[0, 1, 2, 3], num_hidden_layers=4, is_hybrid=False,
        reassemble_factors=[4, 2, 1, .5])),
    "vitdet": ("VitDetModel", image_of(32), dict(window_size=2, window_block_indices=[0], residual_block_indices=[1], pretrain_image_size=32,
                                                 use_relative_position_embeddings=True)),
    "swinv2": ("Swinv2ForImageClassification", labelled, dict(
        image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)),
    "convnextv2": ("ConvNextV2ForImageClassification", labelled, dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], patch_size=4)),
}

# The second set: families and options that the first does not have.
SECOND = {
    "bloom-alibi": ("BloomForCausalLM", causal, {}),
    "mpt-alibi": ("MptForCausalLM", causal, {}),
    "falcon-alibi": ("FalconForCausalLM", causal, dict(alibi=True, new_decoder_architecture=False, multi_query=True, parallel_attn=False)),
    "bitnet-relu2": ("BitNetForCausalLM", causal, {}),
    "apertus": ("ApertusForCausalLM", causal, {}),
    "arcee-relu2": ("ArceeForCausalLM", causal, {}),
    "codegen": ("CodeGenForCausalLM", causal, dict(rotary_dim=4, n_ctx=64, n_embd=32, n_head=4)),
    "dbrx": ("DbrxForCausalLM", causal, dict(attn_config=dict(kv_n_heads=2, rope_theta=1e4), ffn_config=dict(ffn_hidden_size=32, moe_num_experts=4, moe_top_k=2, hidden_size=32))),
    "diffllama": ("DiffLlamaForCausalLM", causal, {}),
    "doge": ("DogeForCausalLM", causal, dict(keep_window_size=16)),
    "dots1": ("Dots1ForCausalLM", causal, dict(first_k_dense_replace=1, n_group=1, topk_group=1)),
    "ernie45-moe": ("Ernie4_5_MoeForCausalLM", causal, dict(moe_num_experts=4, moe_k=2, moe_layer_start_index=1)),
    "exaone4-postnorm": ("Exaone4ForCausalLM", causal, dict(sliding_window=8, layer_types=LOCAL)),
    "flex-olmo": ("FlexOlmoForCausalLM", causal, {}),
    "gemma2-softcap": ("Gemma2ForCausalLM", causal, dict(sliding_window=8, query_pre_attn_scalar=8)),
    "glm4-sandwich": ("Glm4ForCausalLM", causal, {}),
    "starcoder-mqa": ("GPTBigCodeForCausalLM", causal, {}),
    "gpt-neo-local": ("GPTNeoForCausalLM", causal, dict(attention_types=[[["global", "local"], 1]], window_size=4)),
    "gpt-neox-partial": ("GPTNeoXForCausalLM", causal, {}),
    "gptj": ("GPTJForCausalLM", causal, dict(rotary_dim=4)),
    "helium": ("HeliumForCausalLM", causal, {}),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", causal, {}),
    "jetmoe": ("JetMoeForCausalLM", causal, dict(kv_channels=8, num_key_value_heads=4)),
    "lfm2": ("Lfm2ForCausalLM", causal, dict(layer_types=["conv", "full_attention"])),
    "longcat": ("LongcatFlashForCausalLM", causal, dict(LATENT, num_layers=2, ffn_hidden_size=64, expert_ffn_hidden_size=32, moe_topk=2, zero_expert_num=2,
                                                       num_key_value_heads=4)),
    "mistral-window": ("MistralForCausalLM", causal, dict(sliding_window=6)),
    "mixtral-aux": ("MixtralForCausalLM", causal, dict(output_router_logits=True)),
    "nemotron-h": ("NemotronHForCausalLM", causal, dict(mamba_num_heads=4, mamba_head_dim=8, n_groups=1, chunk_size=8, ssm_state_size=8,
                                                        layers_block_type=["mamba", "attention"])),
    "olmo-clip": ("OlmoForCausalLM", causal, dict(clip_qkv=0.3)),
    "olmoe": ("OlmoeForCausalLM", causal, dict(output_router_logits=True)),
    "opt-tied": ("OPTForCausalLM", causal, dict(word_embed_proj_dim=32)),
    "persimmon": ("PersimmonForCausalLM", causal, {}),
    "phimoe": ("PhimoeForCausalLM", causal, {}),
    "qwen2-moe": ("Qwen2MoeForCausalLM", causal, {}),
    "qwen3-tied": ("Qwen3ForCausalLM", causal, dict(tie_word_embeddings=True)),
    "recurrent-gemma": ("RecurrentGemmaForCausalLM", causal, dict(lru_width=32, attention_window_size=8, block_types=["recurrent", "attention"])),
    "seed-oss": ("SeedOssForCausalLM", causal, {}),
    "stablelm-qknorm": ("StableLmForCausalLM", causal, dict(qk_layernorm=True, use_parallel_residual=True)),
    "starcoder2": ("Starcoder2ForCausalLM", causal, dict(sliding_window=8)),
    "xlstm": ("xLSTMForCausalLM", tokens, dict(num_blocks=2, chunk_size=8)),
    "minimax-m2": ("MiniMaxM2ForCausalLM", causal, {}),
    "deepseek-v2": ("DeepseekV2ForCausalLM", causal, dict(LATENT, first_k_dense_replace=1, head_dim=8, num_key_value_heads=4)),
    "kimi-linear": ("KimiLinearForCausalLM", causal, dict(LATENT)),
    "nanochat": ("NanoChatForCausalLM", causal, {}),
    "albert-tied": ("AlbertForMaskedLM", causal, dict(embedding_size=16)),
    "deberta-v2": ("DebertaV2ForMaskedLM", causal, dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)),
    "electra": ("ElectraForMaskedLM", causal, dict(embedding_size=16)),
    "esm": ("EsmForMaskedLM", causal, dict(mask_token_id=4)),
    "fnet": ("FNetForMaskedLM", tokens, {}),
    "mobilebert": ("MobileBertForMaskedLM", causal, dict(embedding_size=32, true_hidden_size=16, intra_bottleneck_size=16, num_feedforward_networks=2)),
    "mpnet": ("MPNetForMaskedLM", causal, {}),
    "nystromformer": ("NystromformerForMaskedLM", causal, dict(num_landmarks=4, segment_means_seq_len=16)),
    "roformer": ("RoFormerForMaskedLM", causal, {}),
    "bigbird": ("BigBirdForMaskedLM", causal, dict(block_size=4, num_random_blocks=1)),
    "t5": ("T5ForConditionalGeneration", sequences, dict(decoder_start_token_id=0)),
    "longt5": ("LongT5ForConditionalGeneration", sequences, dict(decoder_start_token_id=0, local_radius=4, encoder_attention_type="transient-global", global_block_size=4)),
    "switch": ("SwitchTransformersForConditionalGeneration", sequences, dict(decoder_start_token_id=0, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1)),
    "prophetnet": ("ProphetNetForConditionalGeneration", sequences, dict(num_encoder_attention_heads=4, num_decoder_attention_heads=4, num_buckets=8,
                                                                        relative_max_distance=16, ngram=2)),
    "led": ("LEDForConditionalGeneration", sequences, dict(attention_window=[4, 4], max_encoder_position_embeddings=32, max_decoder_position_embeddings=32)),
    "beit": ("BeitForImageClassification", labelled, dict(use_relative_position_bias=True, layer_scale_init_value=.1, out_indices=[1, 2])),
    "cvt": ("CvtForImageClassification", labelled, dict(embed_dim=[8, 16, 16], num_heads=[1, 1, 2], depth=[1, 1, 1], patch_sizes=[7, 3, 3])),
    "dinov2": ("Dinov2ForImageClassification", labelled, dict(use_swiglu_ffn=True)),
    "focalnet": ("FocalNetForImageClassification", labelled, dict(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32],
                                                                  focal_levels=[2, 2], focal_windows=[3, 3])),
    "levit": ("LevitForImageClassification", labelled, dict(image_size=64, patch_size=16, hidden_sizes=[16, 16, 32], depths=[1, 1, 1], num_attention_heads=[1, 2, 2],
                                                            key_dim=[8, 8, 8])),
    "mobilevit": ("MobileViTForImageClassification", labelled, dict(image_size=64, patch_size=2, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32])),
    "pvt-v2": ("PvtV2ForImageClassification", labelled, dict(image_size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2])),
    "swiftformer": ("SwiftFormerForImageClassification", labelled, dict(image_size=64, embed_dims=[8, 16, 16, 32], depths=[1, 1, 1, 1])),
    "vit-mae": ("ViTMAEForPreTraining", image, dict(decoder_hidden_size=16, decoder_intermediate_size=32)),
    "yolos": ("YolosForObjectDetection", boxes(64), dict(image_size=[64, 64], patch_size=16, num_detection_tokens=5, num_labels=3)),
    "deformable-detr": ("DeformableDetrForObjectDetection", boxes(64), dict(
        backbone_config=dict(model_type="resnet", embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic",
                             out_features=["stage2", "stage3", "stage4"]), num_queries=5, num_labels=3, num_feature_levels=3)),
    "hubert": ("HubertForCTC", wave(800, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[8, 8, 8], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, num_feat_extract_layers=3,
        ctc_zero_infinity=True)),
    "wavlm": ("WavLMForCTC", wave(800, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[8, 8, 8], conv_stride=[5, 2, 2], conv_kernel=[10, 3, 3], num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, num_feat_extract_layers=3)),
    "ast": ("ASTForAudioClassification", lambda c: dict(input_values=torch.randn(BATCH, 32, 16), labels=torch.tensor([0, 1])), dict(
        max_length=32, num_mel_bins=16, time_stride=8, frequency_stride=8)),
    "musicgen": ("MusicgenForCausalLM", lambda c: dict(input_ids=words(2 * BATCH, 12) % 40, labels=words(BATCH, 12, 2) % 40), dict(
        num_codebooks=2, vocab_size=64)),
    "llava": ("LlavaForConditionalGeneration", with_images(32, 4), dict(
        vision_config=dict(model_type="clip_vision_model", patch_size=16), text_config=dict(model_type="llama"), image_token_id=4, image_token_index=4)),
    "internvl": ("InternVLForConditionalGeneration", with_images(32, 4), dict(
        vision_config=dict(image_size=[32, 32], patch_size=[8, 8]), text_config=dict(model_type="qwen2"), image_token_id=4)),
    "vilt": ("ViltModel", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32)), {}),
    "flava-image": ("FlavaImageModel", image, {}),
    "autoformer": ("AutoformerForPrediction", lambda c: dict(
        past_values=torch.randn(BATCH, 24), past_time_features=torch.randn(BATCH, 24, 2), past_observed_mask=torch.ones(BATCH, 24),
        future_values=torch.randn(BATCH, 8), future_time_features=torch.randn(BATCH, 8, 2)), dict(
        prediction_length=8, context_length=16, lags_sequence=[1, 4, 8], num_time_features=2, moving_average=5)),
    "patchtsmixer": ("PatchTSMixerForPrediction", lambda c: dict(
        past_values=torch.randn(BATCH, 16, 3), future_values=torch.randn(BATCH, 4, 3)), dict(
        num_input_channels=3, context_length=16, prediction_length=4, patch_length=4, patch_stride=4, self_attn=True)),
}

# The third set: families of which no program was looked at while faults were mended.
THIRD = {
    **{name: (cls + "ForCausalLM", causal, {}) for name, cls in {
        "biogpt": "BioGpt", "cohere": "Cohere", "cwm": "Cwm", "ernie45": "Ernie4_5", "gemma": "Gemma", "glm": "Glm", "granite": "Granite",
        "granite-shared": "GraniteMoeShared", "hunyuan-moe": "HunYuanMoEV1", "jais2": "Jais2", "ministral": "Ministral",
        "ministral3": "Ministral3", "modernbert-decoder": "ModernBertDecoder", "qwen2": "Qwen2", "roberta-decoder": "Roberta",
        "solar-open": "SolarOpen", "vaultgemma": "VaultGemma", "xglm": "XGLM", "laguna": "Laguna", "afmoe": "Afmoe", "cohere2-moe": "Cohere2Moe",
        "kolibri": "Kolibri1", "dory": "Dory", "flint": "Flint", "mellum": "Mellum", "hy3": "HYV3", "lfm3": "Lfm3", "hrm": "HrmText",
        "exaone-moe": "ExaoneMoe"}.items()},
    "falcon-mamba": ("FalconMambaForCausalLM", tokens, dict(time_step_rank=4)),
    "glm4-lite": ("Glm4MoeLiteForCausalLM", causal, dict(LATENT, first_k_dense_replace=1, head_dim=8, num_key_value_heads=4)),
    "youtu": ("YoutuForCausalLM", causal, dict(LATENT, head_dim=8, num_key_value_heads=4)),
    "minicpm3": ("MiniCPM3ForCausalLM", causal, dict(LATENT, num_key_value_heads=4)),
    "olmo3": ("Olmo3ForCausalLM", causal, dict(layer_types=LOCAL, sliding_window=8)),
    "mimo": ("MiMoV2FlashForCausalLM", causal, dict(sliding_window=8)),
    "ctrl": ("CTRLLMHeadModel", tokens, dict(dff=64)),
    "gpt1": ("OpenAIGPTLMHeadModel", tokens, {}),
    **{name: (cls + "ForMaskedLM", causal, {}) for name, cls in {
        "bert": "Bert", "camembert": "Camembert", "data2vec-text": "Data2VecText", "distilbert": "DistilBert", "ernie": "Ernie",
        "eurobert": "EuroBert", "gte": "Gte", "ibert": "IBert", "nomic-bert": "NomicBert", "rembert": "RemBert", "rocbert": "RoCBert",
        "roberta-prenorm": "RobertaPreLayerNorm", "xlm-roberta": "XLMRoberta", "yoso": "Yoso", "megatron-bert": "MegatronBert"}.items()},
    "convbert": ("ConvBertForMaskedLM", causal, dict(embedding_size=32, head_ratio=2)),
    "deberta": ("DebertaForMaskedLM", causal, dict(relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "squeezebert": ("SqueezeBertForMaskedLM", causal, dict(embedding_size=32)),
    "funnel": ("FunnelForMaskedLM", causal, dict(block_sizes=[1, 1], d_head=8, n_head=4)),
    "luke": ("LukeForMaskedLM", causal, dict(entity_vocab_size=8, entity_emb_size=16)),
    **{name: (cls + "ForConditionalGeneration", sequences, dict(decoder_start_token_id=1)) for name, cls in {
        "blenderbot": "Blenderbot", "blenderbot-small": "BlenderbotSmall", "m2m100": "M2M100", "mbart": "MBart", "mt5": "MT5", "mvp": "Mvp",
        "plbart": "PLBart", "pegasus": "Pegasus", "umt5": "UMT5"}.items()},
    "pegasus-x": ("PegasusXForConditionalGeneration", sequences, dict(block_size=4, num_global_tokens=2)),
    **{name: (cls + "ForImageClassification", labelled, over) for name, cls, over in (
        ("deit", "DeiT", {}), ("dinov2-registers", "Dinov2WithRegisters", {}), ("ijepa", "IJepa", {}), ("vit-msn", "ViTMSN", {}),
        ("hf-vit", "ViT", {}), ("convnext", "ConvNext", dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[8, 8, 16, 16], patch_size=4)),
        ("hf-resnet", "ResNet", dict(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], image_size=64)),
        ("hf-regnet", "RegNet", dict(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], groups_width=4, image_size=64)),
        ("poolformer", "PoolFormer", dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], image_size=64)),
        ("pvt", "Pvt", dict(image_size=64, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2])),
        ("hf-swin", "Swin", dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)),
        ("hiera", "Hiera", dict(image_size=[64, 64], embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4], query_stride=[2, 2], masked_unit_size=[4, 4],
                                patch_size=[7, 7], patch_stride=[4, 4], patch_padding=[3, 3], num_query_pool=2)),
        ("mobilenet-v1", "MobileNetV1", dict(depth_multiplier=.25, min_depth=8, image_size=64)),
        ("mobilenet-v2", "MobileNetV2", dict(depth_multiplier=.25, min_depth=8, image_size=64)),
        ("siglip2-free", "Siglip", dict(vision_config=dict(patch_size=8))))},
    "wav2vec2": ("Wav2Vec2ForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "unispeech": ("UniSpeechForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "sew": ("SEWForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8, squeeze_factor=2,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "glpn": ("GLPNForDepthEstimation", image_of(64), dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16)),
    "conditional-detr": ("ConditionalDetrForObjectDetection", boxes(64), dict(backbone_config=dict(
        model_type="resnet", embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]),
        num_queries=5, num_labels=3)),
}


# The fourth set, likewise.
FOURTH = {
    **{name: (cls + "ForCausalLM", causal, {}) for name, cls in {
        "gpt-neox-japanese": "GPTNeoXJapanese", "granite-swa": "GraniteSWA", "hyperclova": "HyperCLOVAX", "lara": "LaraMini",
        "olmo-hybrid": "OlmoHybrid", "qwen35": "Qwen3_5", "xlm-roberta-xl": "XLMRobertaXL", 
        "beam": "Beam", "granite-moe-swa": "GraniteMoeSWA", "trocr": "TrOCR", "aria-text": "AriaText"}.items()},
    "deepseek-v32": ("DeepseekV32ForCausalLM", causal, dict(LATENT, num_key_value_heads=4)),
    "axk1": ("AXK1ForCausalLM", causal, dict(LATENT, num_key_value_heads=4)),
    **{name: (cls, causal, {}) for name, cls in {
        "jina3": "JinaEmbeddingsV3ForMaskedLM", "ultrabert": "UltrabertForMaskedLM",
        "layoutlm": "LayoutLMForMaskedLM"}.items()},
    "mra": ("MraForMaskedLM", causal, dict(block_per_row=2)),
    "perceiver": ("PerceiverForMaskedLM", causal, dict(num_latents=8, d_latents=32, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4,
                                                       num_cross_attention_heads=4, max_position_embeddings=16)),
    "reformer": ("ReformerForMaskedLM", causal, dict(is_decoder=False, axial_pos_embds=False, num_buckets=2, attn_layers=["local", "local"],
                                                     local_attn_chunk_length=8, feed_forward_size=64)),
    "canine": ("CanineForSequenceClassification", lambda c: dict(text(c), labels=torch.tensor([0, 1])), dict(
        num_hash_buckets=64, local_transformer_stride=8, downsampling_rate=4)),
    **{name: (cls, sequences, dict(decoder_start_token_id=1)) for name, cls in {
        "bigbird-pegasus": "BigBirdPegasusForConditionalGeneration", "marian": "MarianMTModel"}.items()},
    "flaubert": ("FlaubertWithLMHeadModel", causal, dict(emb_dim=32, n_words=WORDS)),
    "xlm": ("XLMWithLMHeadModel", causal, dict(emb_dim=32, n_words=WORDS)),
    "zaya": ("ZayaForCausalLM", causal, dict(num_experts_per_tok=1)),
    "esmc": ("EsmcForMaskedLM", causal, dict(num_key_value_heads=4)),
    "xmod": ("XmodForMaskedLM", causal, dict(default_language="en_XX")),
    **{name: (cls + "ForImageClassification", labelled, over) for name, cls, over in (
        ("bit", "Bit", dict(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_groups=4, image_size=64)),
        ("data2vec-vision", "Data2VecVision", {}),
        ("lcnet-hf", "PPLCNet", dict(image_size=64, scale=.25)),
        ("donut-swin", "DonutSwin", dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 1], num_heads=[2, 4], window_size=4)))},
    "imagegpt": ("ImageGPTForImageClassification", lambda c: dict(input_ids=words(), labels=torch.tensor([0, 1])), {}),
    "data2vec-audio": ("Data2VecAudioForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=2,
        conv_pos_kernel_size=7, num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "sew-d": ("SEWDForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8, squeeze_factor=2,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "unispeech-sat": ("UniSpeechSatForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
}

# The fifth set, likewise.
FIFTH = {
    **{name: (cls + "ForCausalLM", causal, {}) for name, cls in {
        "bailing": "BailingHybrid", "mistral4": "Mistral4",
        "inkling": "Inkling", "qwen35-moe": "Qwen3_5Moe", "qwen4-exp": "Qwen4Exp", 
        "deepseek-v4": "DeepseekV4", "minimax-m3": "MiniMaxM3VL"}.items()},
    "axk2": ("AXK2ForCausalLM", causal, dict(LATENT, num_key_value_heads=4)),
    "glm-dsa": ("GlmMoeDsaForCausalLM", causal, dict(LATENT, num_key_value_heads=4)),
    "lfm2-moe": ("Lfm2MoeForCausalLM", causal, dict(layer_types=["conv", "full_attention"], num_dense_layers=1)),
    "gemma4": ("Gemma4ForCausalLM", causal, dict(vocab_size_per_layer_input=WORDS, hidden_size_per_layer_input=8)),
    "moshi": ("MoshiForCausalLM", causal, dict(audio_vocab_size=32)),
    "splinter": ("SplinterForQuestionAnswering", lambda c: dict(text(c), start_positions=torch.tensor([1, 3]), end_positions=torch.tensor([4, 9])), {}),
    "lilt": ("LiltForTokenClassification", lambda c: dict(text(c), bbox=torch.tensor([4, 6, 20, 30]).repeat(BATCH, LENGTH, 1), labels=words() % 2), dict(
        max_2d_position_embeddings=64, channel_shrink_ratio=2, hidden_size=48, intermediate_size=64)),
    "layoutlmv3": ("LayoutLMv3ForTokenClassification", lambda c: dict(text(c), bbox=torch.tensor([4, 6, 20, 30]).repeat(BATCH, LENGTH, 1), labels=words() % 2,
                                                                     pixel_values=torch.randn(BATCH, 3, 32, 32)), dict(
        max_2d_position_embeddings=64, coordinate_size=4, shape_size=8, input_size=32)),
    "markuplm": ("MarkupLMForTokenClassification", lambda c: dict(text(c), labels=words() % 2), {}),
    "openai-filter": ("OpenAIPrivacyFilterForTokenClassification", lambda c: dict(text(c), labels=words() % 2), {}),
    "tapas": ("TapasForMaskedLM", causal, {}),
    "visualbert": ("VisualBertForPreTraining", lambda c: dict(text(c), visual_embeds=torch.randn(BATCH, 4, 16), visual_attention_mask=torch.ones(BATCH, 4), labels=words(BATCH, LENGTH + 4)), dict(visual_embedding_dim=16)),
    "lxmert": ("LxmertForPreTraining", lambda c: dict(text(c), visual_feats=torch.randn(BATCH, 4, 16), visual_pos=torch.rand(BATCH, 4, 4), labels=words()), dict(
        visual_feat_dim=16, l_layers=1, x_layers=1, r_layers=1, task_qa=False, task_obj_predict=False)),
    "blip": ("BlipForConditionalGeneration", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32), labels=words()), dict(
        text_config=dict(encoder_hidden_size=32, hidden_dropout_prob=0.), vision_config=VISION)),
    "git": ("GitForCausalLM", lambda c: dict(causal(c), pixel_values=torch.randn(BATCH, 3, 32, 32)), dict(vision_config=dict(VISION))),
    "owlv2": ("Owlv2Model", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32), return_loss=True), dict(
        vision_config=VISION, text_config=dict(max_position_embeddings=16))),
    "groupvit": ("GroupViTModel", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32), return_loss=True), dict(
        vision_config=dict(VISION, depths=[1, 1, 1], num_group_tokens=[4, 2, 0], num_output_groups=[4, 2, 0]), text_config=dict(eos_token_id=2))),
    "siglip2": ("Siglip2Model", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 16, 192), pixel_attention_mask=torch.ones(BATCH, 16, dtype=torch.int32),
                                              spatial_shapes=torch.tensor([[4, 4], [2, 8]]), return_loss=True), dict(vision_config=dict(VISION, num_patches=16))),
    "clipseg": ("CLIPSegForImageSegmentation", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32), labels=torch.rand(BATCH, 32, 32)), dict(
        vision_config=dict(VISION, num_hidden_layers=3), extract_layers=[1, 2], reduce_dim=16, decoder_num_attention_heads=2, decoder_intermediate_size=32)),
    "rtdetr-v2": ("RTDetrV2ForObjectDetection", boxes(64), dict(
        backbone_config=dict(model_type="rt_detr_resnet", embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
                             out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], d_model=16, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=32,
        encoder_ffn_dim=32, num_queries=6, num_labels=3, hidden_expansion=1.0, num_denoising=4)),
    "d-fine": ("DFineForObjectDetection", boxes(64), dict(
        backbone_config=dict(model_type="hgnet_v2", embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage2", "stage3", "stage4"],
                             stem_channels=[3, 8, 8], stage_in_channels=[8, 8, 8, 16], stage_mid_channels=[8, 8, 8, 8], stage_out_channels=[8, 8, 16, 16],
                             stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[1, 1, 1, 1]),
        encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], d_model=16, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=32,
        encoder_ffn_dim=32, num_queries=6, num_labels=3, hidden_expansion=1.0, num_denoising=4)),
    "dab-detr": ("DabDetrForObjectDetection", boxes(64), dict(backbone_config=dict(
        model_type="resnet", embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]),
        num_queries=5, num_labels=3)),
    "maskformer": ("MaskFormerForInstanceSegmentation", lambda c: dict(
        pixel_values=torch.randn(BATCH, 3, 64, 64), mask_labels=[(torch.rand(2, 64, 64) > .5).float() for _ in range(BATCH)],
        class_labels=[torch.tensor([0, 1]) for _ in range(BATCH)]), dict(
        backbone_config=dict(model_type="swin", embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4, patch_size=4,
                             out_features=["stage1", "stage2", "stage3", "stage4"]),
        decoder_config=dict(model_type="detr", d_model=32, encoder_layers=1, decoder_layers=1, num_queries=4), fpn_feature_size=32, mask_feature_size=32, num_labels=3)),
    "swin2sr": ("Swin2SRForImageSuperResolution", image_of(16), dict(image_size=16, patch_size=1, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)),
    "depth-anything": ("DepthAnythingForDepthEstimation", image_of(32), dict(
        backbone_config=dict(model_type="dinov2", hidden_size=32, num_hidden_layers=4, num_attention_heads=4, image_size=32, patch_size=8,
                             out_indices=[1, 2, 3, 4], apply_layernorm=True, reshape_hidden_states=False),
        patch_size=8, reassemble_hidden_size=32, neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=16, head_hidden_size=8, depth_estimation_type="metric", max_depth=2)),
    "efficientnet-hf": ("EfficientNetForImageClassification", labelled, dict(image_size=32, width_coefficient=.25, depth_coefficient=.1, hidden_dim=320)),
    "mobilevit-v2": ("MobileViTV2ForImageClassification", labelled, dict(image_size=64, patch_size=2, width_multiplier=.25, n_attn_blocks=[1, 1, 1], base_attn_unit_dims=[16, 16, 16])),
    "textnet": ("TextNetForImageClassification", labelled, dict(image_size=64, stem_out_channels=8, hidden_sizes=[8, 8, 16, 16, 16])),
    "videomae": ("VideoMAEForPreTraining", lambda c: dict(pixel_values=torch.rand(BATCH, 4, 3, 32, 32), bool_masked_pos=torch.arange(32).repeat(BATCH, 1) % 2 == 0), dict(
        num_frames=4, decoder_hidden_size=32, decoder_intermediate_size=32, decoder_num_attention_heads=4, norm_pix_loss=False)),
    "vivit": ("VivitForVideoClassification", lambda c: dict(pixel_values=torch.randn(BATCH, 4, 3, 32, 32), labels=torch.tensor([0, 1])), dict(num_frames=4, tubelet_size=[2, 8, 8])),
    "timesformer": ("TimesformerForVideoClassification", lambda c: dict(pixel_values=torch.randn(BATCH, 2, 3, 32, 32), labels=torch.tensor([0, 1])), dict(num_frames=2)),
    "vjepa2": ("VJEPA2Model", lambda c: dict(pixel_values_videos=torch.randn(BATCH, 4, 3, 32, 32)), dict(
        crop_size=32, frames_per_clip=4, pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1, pred_num_mask_tokens=1)),
    "speech2text": ("Speech2TextForConditionalGeneration", lambda c: dict(input_features=torch.randn(BATCH, 24, 16), attention_mask=torch.ones(BATCH, 24, dtype=torch.long),
                                                                         labels=words(BATCH, 6)), dict(input_feat_per_channel=16, conv_channels=16, max_source_positions=24,
                                                                                                       max_target_positions=16, decoder_start_token_id=1)),
    "wav2vec2-conformer": ("Wav2Vec2ConformerForCTC", wave(1200, labels=torch.randint(5, 20, (BATCH, 3))), dict(
        conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embeddings=8, conv_depthwise_kernel_size=3,
        num_conv_pos_embedding_groups=2, ctc_zero_infinity=True, mask_time_prob=0.)),
    "clap": ("ClapAudioModel", lambda c: dict(input_features=torch.randn(BATCH, 1, 64, 64), is_longer=torch.tensor([[False], [False]])), dict(
        spec_size=64, num_mel_bins=64, patch_embeds_hidden_size=16, depths=[1, 1], num_attention_heads=[2, 2], patch_stride=[4, 4], window_size=4, hidden_size=32, enable_fusion=False)),
    "decision": ("DecisionTransformerModel", lambda c: dict(
        states=torch.randn(BATCH, 6, 5), actions=torch.randn(BATCH, 6, 2), rewards=torch.randn(BATCH, 6, 1), returns_to_go=torch.randn(BATCH, 6, 1),
        timesteps=torch.arange(6).repeat(BATCH, 1), attention_mask=torch.ones(BATCH, 6)), dict(state_dim=5, act_dim=2, max_ep_len=16)),
    "time-series": ("TimeSeriesTransformerForPrediction", lambda c: dict(
        past_values=words(BATCH, 24).float(), past_time_features=torch.randn(BATCH, 24, 2), past_observed_mask=torch.ones(BATCH, 24),
        future_values=words(BATCH, 8).float(), future_time_features=torch.randn(BATCH, 8, 2)), dict(
        prediction_length=8, context_length=16, lags_sequence=[1, 4, 8], num_time_features=2, distribution_output="negative_binomial")),
}

SIXTH = {
    "bert-generation": ("BertGenerationDecoder", causal, dict(is_decoder=True)),
    "fsmt": ("FSMTForConditionalGeneration", causal, dict(src_vocab_size=WORDS, tgt_vocab_size=WORDS, langs=["en", "de"], decoder_start_token_id=2)),
    "bros": ("BrosForTokenClassification", lambda c: dict(causal(c), bbox=torch.rand(BATCH, LENGTH, 4), labels=torch.randint(0, 2, (BATCH, LENGTH))), dict(hidden_size=64)),
    "hy4": ("HYV4ForCausalLM", causal, {}),
    "gemma3n": ("Gemma3nForCausalLM", causal, dict(layer_types=LOCAL, vocab_size_per_layer_input=WORDS, hidden_size_per_layer_input=8, laurel_rank=4, num_kv_shared_layers=0,
                                                   activation_sparsity_pattern=[.95, 0.])),
    "hgnet-hf": ("HGNetV2ForImageClassification", labelled, dict(image_size=64, embedding_size=8, hidden_sizes=[8, 8, 16, 16], stem_channels=[3, 8, 8], depths=[1, 1, 1, 1],
        stage_in_channels=[8, 8, 8, 16], stage_mid_channels=[8, 8, 8, 8], stage_out_channels=[8, 8, 16, 16], stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[2, 2, 2, 2])),
    "dinov3-convnext": ("DINOv3ConvNextModel", image_of(64), dict(image_size=64, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1])),
    "aimv2": ("Aimv2VisionModel", image, {}),
    "pixio": ("PixioModel", image, {}),
    "lcnet-pp": ("PPLCNetForImageClassification", labelled, dict(image_size=64, scale=.25)),
    "mgp-str": ("MgpstrModel", image_of(32), dict(image_size=[32, 32], patch_size=8, max_token_length=6)),
    "chinese-clip": ("ChineseCLIPModel", pairs, dict(vision_config=dict(patch_size=8))),
    "metaclip2": ("MetaClip2Model", pairs, dict(text_config=dict(eos_token_id=2), vision_config=dict(patch_size=8))),
    "owlvit": ("OwlViTModel", lambda c: dict(text(c), pixel_values=torch.randn(BATCH, 3, 32, 32), return_loss=True), dict(vision_config=dict(patch_size=8))),
    "table-detr": ("TableTransformerForObjectDetection", boxes(64), dict(use_timm_backbone=False, backbone=None, backbone_config=dict(
        model_type="resnet", embedding_size=8, hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]),
        num_queries=5, num_labels=3)),
    "upernet": ("UperNetForSemanticSegmentation", lambda c: dict(pixel_values=torch.randn(BATCH, 3, 64, 64), labels=torch.randint(0, 3, (BATCH, 64, 64))), dict(
        backbone_config=dict(model_type="convnext", hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_size=16, auxiliary_channels=8, auxiliary_in_channels=16, num_labels=3)),
    "pix2struct": ("Pix2StructForConditionalGeneration", lambda c: dict(
        flattened_patches=torch.cat([torch.ones(BATCH, 8, 2), torch.randn(BATCH, 8, 48)], -1), attention_mask=torch.ones(BATCH, 8), labels=words(BATCH, 6)), dict(
        vision_config=dict(patch_embed_hidden_size=48, d_kv=8), text_config=dict(decoder_start_token_id=0))),
    "timesfm25": ("TimesFm2_5ModelForPrediction", lambda c: dict(past_values=[torch.randn(32), torch.randn(24)], future_values=torch.randn(BATCH, 8)), dict(
        patch_length=8, context_length=32, horizon_length=8, output_quantile_len=8)),
    "roberta-classes": ("RobertaForSequenceClassification", lambda c: dict(text(c), labels=torch.rand(BATCH, 3).round()), dict(
        num_labels=3, problem_type="multi_label_classification")),
}


def qwen_vl(c):
    grid = torch.tensor([[1, 4, 4]] * BATCH)
    t = causal(c)
    t["input_ids"][:, 1] = 3
    t["input_ids"][:, 2:6] = 4
    return dict(t, pixel_values=torch.randn(BATCH * 16, 3 * 2 * 4 * 4), image_grid_thw=grid,
                mm_token_type_ids=(t["input_ids"] == 4).int())


ARCHITECTURES = {**TRANSFORMERS, **SECOND, **THIRD, **FOURTH, **FIFTH, **SIXTH}


def of_transformers(name):
    def make():
        try:
            import transformers
        except ImportError:
            raise Missing("transformers")
        transformers.logging.set_verbosity_error()
        model_class, inputs, over = ARCHITECTURES[name]
        if not hasattr(transformers, model_class):
            raise Missing(model_class + " of transformers")
        model_class = getattr(transformers, model_class)
        config = small(model_class.config_class, over)
        model = model_class(config)
        given = inputs(config)
        return Example(model, given, pads="attention_mask" in given, images="pixel_values" in given)
    return make


# --- timm and torchvision ---------------------------------------------------------------------------------------------

TIMM = {
    "efficientvit": ("efficientvit_b0", dict(widths=(4, 8, 8, 16, 16), depths=(1, 1, 1, 1, 1), head_widths=(32, 32), head_dim=8), 64),
    "fastvit": ("fastvit_t8", dict(layers=(1, 1, 1, 1), embed_dims=(16, 16, 32, 64)), 64),
    "mobilenetv4": ("mobilenetv4_conv_small_035", {}, 64),
    "repvit": ("repvit_m0_9", dict(embed_dim=(16, 16, 32, 32), depth=(1, 1, 1, 1)), 64),
    "resnet": ("resnet18", dict(layers=(1, 1, 1, 1), channels=(8, 8, 16, 16)), 64),
    "vit": ("vit_tiny_patch16_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "eva02": ("eva02_tiny_patch14_224", dict(img_size=28, patch_size=7, embed_dim=32, depth=2, num_heads=4), 28),
    "maxvit": ("maxvit_rmlp_pico_rw_256", dict(img_size=64, embed_dim=(32, 32), depths=(1, 1), stem_width=8), 64),
}

SECOND_TIMM = {
    "regnety": ("regnety_002", {}, 64),
    "ghostnet": ("ghostnet_050", {}, 64),
    "edgenext": ("edgenext_xx_small", dict(dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), heads=(2, 2, 2, 2)), 64),
    "xcit": ("xcit_nano_12_p16_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "coat": ("coat_lite_tiny", dict(img_size=64), 64),
    "mambaout": ("mambaout_femto", dict(depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)), 64),
    "gmlp": ("gmlp_ti16_224", dict(img_size=32), 32),
    "davit": ("davit_tiny", dict(depths=(1, 1), embed_dims=(16, 32), num_heads=(2, 4), window_size=4), 64),
    "starnet": ("starnet_s1", dict(base_dim=8, depths=(1, 1, 1, 1)), 64),
}

THIRD_TIMM = {
    "crossvit": ("crossvit_tiny_240", dict(img_size=240, embed_dim=(16, 32), depth=((1, 1, 0),), num_heads=(2, 2)), 240),
    "dla": ("dla46_c", {}, 64),
    "hardcorenas": ("hardcorenas_a", {}, 64),
    "lcnet": ("lcnet_050", {}, 64),
    "mnasnet": ("mnasnet_small", {}, 64),
    "nest": ("nest_tiny", dict(img_size=64, embed_dims=(16, 32, 32), num_heads=(2, 2, 2), depths=(1, 1, 1)), 64),
    "nfnet": ("nf_regnet_b0", {}, 64),
    "rexnet": ("rexnetr_100", dict(width_mult=.25), 64),
    "tinynet": ("tinynet_e", {}, 64),
    "tnt": ("tnt_s_patch16_224", dict(img_size=32, embed_dim=32, inner_dim=8, depth=2, num_heads_outer=4), 32),
    "vgg": ("vgg11", dict(cfg=(8, "M", 16, "M", 16, "M")), 64),
    "hgnet": ("hgnetv2_b0", {}, 64),
    "cait": ("cait_xxs24_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
}

FOURTH_TIMM = {
    "beit": ("beit_base_patch16_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "deit3": ("deit3_small_patch16_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "inception-next": ("inception_next_tiny", dict(depths=(1, 1, 1, 1), dims=(16, 16, 32, 32)), 64),
    "levit": ("levit_128s", dict(img_size=64), 64),
    "res2net": ("res2net50_14w_8s", dict(layers=(1, 1, 1, 1)), 64),
    "visformer": ("visformer_tiny", dict(img_size=64, embed_dim=32, depth=(1, 1, 1), num_heads=2), 64),
    "convit": ("convit_tiny", dict(img_size=32, patch_size=8, embed_dim=32, depth=3, num_heads=4, local_up_to_layer=2), 32),
    "rdnet": ("rdnet_tiny", dict(num_init_features=16, growth_rates=(16, 16, 16), num_blocks_list=(1, 1, 1), is_downsample_block=(None, True, True),
                                    block_type=("Block", "Block", "BlockESE")), 64),
    "pit": ("pit_ti_224", dict(img_size=64), 64),
    "tiny-vit": ("tiny_vit_5m_224", dict(embed_dims=(16, 16, 32, 32), depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2), window_sizes=(4, 4, 4, 2)), 64),
    "resnest": ("resnest14d", {}, 64),
}

FIFTH_TIMM = {
    "densenet": ("densenet121", dict(growth_rate=8, block_config=(2, 2, 2, 2)), 64),
    "efficientformer-v2": ("efficientformerv2_s0", dict(img_size=64, depths=(1, 1, 1, 1), embed_dims=(8, 16, 16, 32)), 64),
    "efficientvit-msra": ("efficientvit_m0", {}, 64),
    "fasternet": ("fasternet_t0", dict(embed_dim=16, depths=(1, 1, 1, 1)), 64),
    "hiera": ("hiera_tiny_224", dict(img_size=(64, 64), embed_dim=16, num_heads=1, stages=(1, 1, 1, 1)), 64),
    "pvt-v2": ("pvt_v2_b0", dict(embed_dims=(8, 16, 16, 32), depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2)), 64),
    "repghost": ("repghostnet_050", {}, 64),
    "resnetv2": ("resnetv2_50", dict(layers=(1, 1, 1, 1), channels=(16, 16, 32, 32), stem_chs=16), 64),
    "sequencer": ("sequencer2d_s", dict(img_size=56, embed_dims=(16, 32, 32, 32), hidden_sizes=(4, 8, 8, 8), layers=(1, 1, 1, 1)), 56),
    "sknet": ("skresnet18", dict(layers=(1, 1, 1, 1), channels=(16, 16, 32, 32)), 64),
    "twins": ("twins_svt_small", dict(img_size=64, embed_dims=(16, 16, 32, 32), depths=(1, 1, 2, 1), num_heads=(1, 1, 2, 2)), 64),
    "relpos": ("vit_relpos_small_patch16_224", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "swinv2-cr": ("swinv2_cr_tiny_ns_224", dict(img_size=64, embed_dim=16, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2)), 64),
    "sam-vit": ("samvit_base_patch16", dict(img_size=64, embed_dim=32, depth=2, num_heads=4, global_attn_indexes=(1,), window_size=2), 64),
}

SIXTH_TIMM = {
    **{n: (n.replace("-", "_"), {}, size) for n, size in {
        "test-byobnet": 64, "test-coatnet": 160, "test-convnext3": 64, "test-efficientnet-evos": 64, "test-efficientnet-gn": 64, "test-efficientnet-ln": 64,
        "test-mambaout": 64, "test-resnet": 64}.items()},
    "vit-rope": ("test_vit3", dict(img_size=64), 64),
    "vit-gap": ("test_vit4", dict(img_size=64), 64),
    "mixer": ("mixer_s32_224", dict(img_size=64), 64),
    "resmlp": ("resmlp_12_224", dict(img_size=32), 32),
    "vovnet": ("ese_vovnet19b_slim_dw", {}, 64),
    "hybrid": ("vit_tiny_r_s16_p8_224", dict(img_size=64, embed_dim=32, depth=2, num_heads=4), 64),
    "naflexvit": ("naflexvit_base_patch16_gap", dict(embed_dim=32, depth=2, num_heads=4, patch_size=8), 32),
    "dinov3": ("vit_tiny_patch16_dinov3_qkvb", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
    "pe-core": ("vit_pe_core_tiny_patch16_384", dict(img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4), 32),
}

PICTURES = {**TIMM, **SECOND_TIMM, **THIRD_TIMM, **FOURTH_TIMM, **FIFTH_TIMM, **SIXTH_TIMM}


def of_timm(name):
    def make():
        try:
            import timm
        except ImportError:
            raise Missing("timm")
        kind, over, size = PICTURES[name]
        model = timm.create_model(kind, num_classes=10, **over)
        return Example(model, (torch.randn(BATCH, 3, size, size),), images=True, loss=classes)
    return make


def classes(model, inputs):
    return F.cross_entropy(model(*inputs), torch.arange(BATCH), label_smoothing=0.1)


def deform():
    torchvision = package("torchvision")

    class Deformed(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3, padding=1)
            self.offset = nn.Conv2d(8, 18, 3, padding=1)
            self.deform = torchvision.ops.DeformConv2d(8, 8, 3, padding=1)
            self.head = nn.Linear(8 * 9, 5)

        def forward(self, x):
            x = F.relu(self.stem(x))
            x = self.deform(x, self.offset(x))
            rois = torch.tensor([[0., 1, 1, 10, 10], [1, 2, 3, 14, 12]], dtype=x.dtype)
            x = torchvision.ops.roi_align(x, rois, 3, sampling_ratio=2)
            boxes = rois[:, 1:].float()
            torchvision.ops.nms(boxes, torch.tensor([.9, .8]), .5)
            return self.head(torchvision.ops.stochastic_depth(x, 0.5, "row", training=False).flatten(1))
    return Example(Deformed(), (torch.randn(BATCH, 3, 16, 16),), images=True, loss=classes)


def raft():
    flow = package("torchvision").models.optical_flow
    model = flow.raft_small(weights=None)
    return Example(model, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128), 1), images=True)


# --- by hand ----------------------------------------------------------------------------------------------------------

def package(name):
    try:
        return __import__(name)
    except ImportError:
        raise Missing(name)


class GraphLayer(nn.Module):
    """Attention over the edges of a graph, as GAT has it, and a mean over neighbours."""

    def __init__(self, d):
        super().__init__()
        self.lin, self.score, self.own = nn.Linear(d, d), nn.Linear(2 * d, 1), nn.Linear(d, d)

    def forward(self, x, edges):
        src, dst = edges
        h = self.lin(x)
        e = F.leaky_relu(self.score(torch.cat([h[src], h[dst]], -1)), 0.2).squeeze(-1)
        top = torch.full((len(x),), -1e4, dtype=e.dtype).scatter_reduce(0, dst, e.detach(), "amax")
        w = (e - top[dst]).exp()
        total = torch.zeros(len(x), dtype=w.dtype).index_add(0, dst, w)
        w = w / (total[dst] + 1e-6)
        y = torch.zeros_like(h).index_add(0, dst, (w[:, None] * h[src]).to(h.dtype))
        degree = torch.bincount(dst, minlength=len(x)).clamp(min=1).to(h.dtype)
        mean = torch.zeros_like(h).scatter_add(0, dst[:, None].expand(-1, h.shape[1]), h[src]) / degree[:, None]
        return F.elu(self.own(x) + y + mean)


def gnn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 32)
            self.layers = nn.ModuleList([GraphLayer(32), GraphLayer(32)])
            self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 4)

        def forward(self, kinds, edges, graph):
            x = self.embed(kinds)
            for layer in self.layers:
                x = self.norm(x + layer(x, edges))
            pooled = torch.stack([x[graph == g].mean(0) for g in range(2)])
            return self.out(torch.cat([pooled, pooled]) / 2)
    edges = torch.randint(0, 20, (2, 60))
    return Example(Net(), (torch.randint(0, 10, (20,)), edges, (torch.arange(20) >= 9).long()),
                   loss=lambda m, i: F.cross_entropy(m(*i), torch.tensor([0, 1, 2, 3])))


def hifigan():
    from torch.nn.utils import weight_norm

    class Vocoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.pre = weight_norm(nn.Conv1d(16, 32, 7, padding=3))
            self.ups = nn.ModuleList([weight_norm(nn.ConvTranspose1d(32 >> i, 16 >> i, 8, 4, padding=2)) for i in range(2)])
            self.res = nn.ModuleList([weight_norm(nn.Conv1d(16 >> i, 16 >> i, 3, dilation=d, padding=d))
                                      for i in range(2) for d in (1, 3)])
            self.post = weight_norm(nn.Conv1d(8, 1, 7, padding=3))

        def forward(self, mel):
            x = self.pre(mel)
            for i, up in enumerate(self.ups):
                x = up(F.leaky_relu(x, 0.1))
                x = sum(r(F.leaky_relu(x, 0.1)) + x for r in self.res[2 * i:2 * i + 2]) / 2
            return torch.tanh(self.post(F.leaky_relu(x)))

    def loss(model, inputs):
        mel, wave = inputs
        y = model(mel).squeeze(1).float()
        window = torch.hann_window(64)
        spec = [torch.stft(v, 64, 16, 64, window, return_complex=True) for v in (y, wave.float())]
        a, b = [torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-9) for s in spec]
        return F.l1_loss(y, wave.float()) + F.l1_loss(a.clamp(min=1e-5).log(), b.clamp(min=1e-5).log())
    return Example(Vocoder(), (torch.randn(BATCH, 16, 16), torch.tanh(torch.randn(BATCH, 256))), loss=loss)


class Residual(nn.Module):
    def __init__(self, a, b, t):
        super().__init__()
        self.n1, self.c1, self.t = nn.GroupNorm(4, a), nn.Conv2d(a, b, 3, padding=1), nn.Linear(t, 2 * b)
        self.n2, self.c2 = nn.GroupNorm(4, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.t(F.silu(t))[:, :, None, None].chunk(2, 1)
        return self.skip(x) + self.c2(F.silu(self.n2(h) * (1 + scale) + shift))


def unet():
    class Net(nn.Module):
        def __init__(self, w=16):
            super().__init__()
            self.time = nn.Sequential(nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w))
            self.first, self.down = nn.Conv2d(3, w, 3, padding=1), nn.Conv2d(w, w, 3, stride=2, padding=1)
            self.a, self.b, self.c = Residual(w, w, w), Residual(w, w, w), Residual(2 * w, w, w)
            self.qkv, self.proj, self.norm = nn.Conv2d(w, 3 * w, 1), nn.Conv2d(w, w, 1), nn.GroupNorm(4, w)
            self.last = nn.Conv2d(w, 3, 3, padding=1)

        def forward(self, x, t):
            w = torch.exp(-math.log(1e4) * torch.arange(8) / 8)
            angle = t[:, None].float() * w[None]
            t = self.time(torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype))
            x = self.a(self.first(x), t)
            h = self.b(self.down(x), t)
            q, k, v = self.qkv(self.norm(h)).flatten(2).transpose(1, 2).chunk(3, -1)
            y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None]).squeeze(1)
            h = h + self.proj(y.transpose(1, 2).reshape(h.shape))
            h = F.interpolate(h, scale_factor=2.0, mode="nearest")
            return self.last(F.silu(self.c(torch.cat([h, x], 1), t)))

    def loss(model, inputs):
        x, noise, t = inputs
        keep = torch.linspace(0.99, 0.1, 100).to(x.dtype)[t][:, None, None, None]
        return F.mse_loss(model(keep.sqrt() * x + (1 - keep).sqrt() * noise, t).float(), noise.float())
    shape = (BATCH, 3, 16, 16)
    return Example(Net(), (torch.randn(shape), torch.randn(shape), torch.tensor([3, 70])), loss=loss, images=True)


class Block(nn.Module):
    """Attention and a gated layer, modulated as in DiT where there is a condition."""

    def __init__(self, d=32, heads=4, condition=False):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d, elementwise_affine=not condition), nn.LayerNorm(d, elementwise_affine=not condition)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.mod = nn.Linear(d, 6 * d) if condition else None

    def forward(self, x, c=None, causal=False):
        s = self.mod(F.silu(c))[:, None].chunk(6, -1) if self.mod is not None else None
        h = self.n1(x) if s is None else self.n1(x) * (1 + s[0]) + s[1]
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))
        x = x + (h if s is None else s[2] * h)
        h = self.n2(x) if s is None else self.n2(x) * (1 + s[3]) + s[4]
        h = self.down(F.gelu(self.up(h), approximate="tanh"))
        return x + (h if s is None else s[5] * h)


def dit():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.label = nn.Conv2d(3, 32, 4, 4), nn.Embedding(10, 32)
            self.place = nn.Parameter(torch.randn(1, 16, 32) * .02)
            self.blocks = nn.ModuleList([Block(condition=True) for _ in range(2)])
            self.out = nn.Linear(32, 48)

        def forward(self, x, y):
            x, c = self.patch(x).flatten(2).mT + self.place, self.label(y)
            for b in self.blocks:
                x = b(x, c)
            return self.out(x).reshape(-1, 4, 4, 4, 4, 3).permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)
    return Example(Net(), (torch.randn(BATCH, 3, 16, 16), torch.tensor([2, 7])), images=True)


class Speaker(nn.Module):
    def __init__(self, blocks=2, width=32):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for b in self.blocks:
            x = b(x, causal=True)
        return self.head(self.norm(x))


def graphormer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.kind, self.degree, self.near = nn.Embedding(10, 32), nn.Embedding(12, 32), nn.Embedding(6, 4)
            self.qkv, self.up, self.down, self.head = nn.Linear(32, 96), nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 1)
            self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)

        def forward(self, kinds, degrees, distances, hidden):
            x = self.kind(kinds) + self.degree(degrees)
            q, k, v = self.qkv(self.n1(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
            scores = q @ k.mT / 8 ** .5 + self.near(distances).permute(0, 3, 1, 2)
            scores = scores.masked_fill(hidden[:, None, None], float("-inf"))
            x = x + (scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v).transpose(1, 2).flatten(2)
            x = x + self.down(F.gelu(self.up(self.n2(x))))
            return self.head(x[:, 0]).squeeze(-1)
    hidden = torch.zeros(BATCH, 12, dtype=torch.bool)
    hidden[1, 9:] = True
    sizes = torch.randint(0, 10, (BATCH, 12)), torch.randint(0, 12, (BATCH, 12)), torch.randint(0, 6, (BATCH, 12, 12)), hidden
    return Example(Net(), sizes, loss=lambda m, i: F.huber_loss(m(*i).float(), torch.tensor([0.5, 3.0])))


def grpo():
    def loss(model, inputs):
        ids, rewards, old, ref, mask = inputs
        logits = model(ids[:, :-1]).float() / 0.9
        logp = torch.gather(logits.log_softmax(-1), -1, ids[:, 1:, None]).squeeze(-1)
        advantage = ((rewards - rewards.mean()) / (rewards.std() + 1e-4))[:, None].float()
        ratio = torch.exp(logp - (logp.detach() + old.float()))
        clipped = torch.clamp(ratio, 0.8, 1.2)
        apart = ref.float()
        kl = torch.exp(apart) - apart - 1 + (logp - logp.detach())
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
        each = -torch.min(ratio * advantage, clipped * advantage) + 0.04 * kl - 0.01 * entropy
        return ((each * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    mask = torch.ones(4, 15)
    mask[1, 10:] = 0
    return Example(Speaker(), (words(4, 16), torch.randn(4), torch.randn(4, 15) * .2, torch.randn(4, 15) * .2, mask), loss=loss)


def dlrm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.EmbeddingBag(50, 16, mode=m) for m in ("sum", "mean", "sum")])
            self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(16 + 6, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, dense, ids, offsets):
            x = self.bottom(dense)
            t = torch.stack([x] + [table(i, offsets) for table, i in zip(self.tables, ids)], 1)
            dots = torch.bmm(t, t.transpose(1, 2))
            i, j = torch.tril_indices(4, 4, -1)
            return self.top(torch.cat([x, dots[:, i, j]], 1)).squeeze(1)
    return Example(Net(), (torch.randn(8, 13), torch.randint(0, 50, (3, 24)), torch.arange(0, 24, 3)),
                   loss=lambda m, i: F.binary_cross_entropy_with_logits(m(*i).float(), torch.tensor([0., 1] * 4)))


def lstm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 24)
            self.lstm = nn.LSTM(24, 16, 2, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(32, 16, batch_first=True)
            self.cell, self.head = nn.LSTMCell(16, 16), nn.Linear(16, WORDS)

        def forward(self, ids):
            x = nn.utils.rnn.pack_padded_sequence(self.embed(ids), torch.tensor([16, 11]), batch_first=True)
            x, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(x)[0], batch_first=True)
            x, _ = self.gru(x)
            h = c = torch.zeros_like(x[:, 0])
            for t in range(4):
                h, c = self.cell(x[:, t], (h, c))
            return self.head(x + h[:, None])
    return Example(Net(), (words(),), loss=lambda m, i: F.cross_entropy(m(*i).float().flatten(0, 1), i[0].flatten()))


def moe():
    class Experts(nn.Module):
        def __init__(self, d=32, n=4):
            super().__init__()
            self.gate = nn.Linear(d, n, bias=False)
            self.up, self.down = nn.Parameter(torch.randn(n, d, 2 * d) * .1), nn.Parameter(torch.randn(n, d, d) * .1)

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            p = self.gate(flat).float().softmax(-1)
            w, chosen = torch.topk(p, 2, -1)
            w = (w / w.sum(-1, keepdim=True)).to(x.dtype)
            hits = F.one_hot(chosen, 4).permute(2, 1, 0)
            y = torch.zeros_like(flat)
            for e in hits.sum((-1, -2)).nonzero().flatten().tolist():
                k, row = torch.where(hits[e])
                a, b = (flat[row] @ self.up[e].to(x.dtype)).chunk(2, -1)
                h = (F.silu(a) * b) @ self.down[e].to(x.dtype) * w[row, k, None]
                y.index_add_(0, row, h.to(y.dtype))
            share = F.one_hot(chosen[:, 0], 4).float().mean(0)
            return y.reshape(x.shape), 4 * (share * p.mean(0)).sum()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.experts, self.head = nn.Embedding(WORDS, 32), Experts(), nn.Linear(32, WORDS)

        def forward(self, ids):
            y, balance = self.experts(self.embed(ids))
            return F.cross_entropy(self.head(y).float().flatten(0, 1), ids.flatten()) + 0.01 * balance
    return Example(Net(), (words(),), loss=lambda m, i: m(*i))


def vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(.2), nn.Conv2d(8, 16, 4, 2, 1), nn.PReLU())
            self.stats, self.up = nn.Linear(16 * 16, 16), nn.Linear(8, 256)
            self.dec = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.Mish(),
                                     nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"), nn.PixelShuffle(2))

        def forward(self, x, noise):
            mu, log = self.stats(self.enc(x).flatten(1)).chunk(2, -1)
            z = mu + noise * torch.exp(0.5 * log)
            y = self.dec(self.up(z).reshape(-1, 16, 4, 4))
            kl = -0.5 * (1 + log - mu.pow(2) - log.exp()).sum(-1).mean()
            return F.smooth_l1_loss(torch.sigmoid(F.avg_pool2d(y, 2).float()), F.adaptive_avg_pool2d(x.float(), 8)) + 1e-2 * kl
    return Example(Net(), (torch.rand(BATCH, 1, 16, 16), torch.randn(BATCH, 8)), loss=lambda m, i: m(*i), images=True)


def transformer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 32, padding_idx=0)
            self.body = nn.Transformer(32, 4, 1, 1, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.head = nn.Linear(32, WORDS)

        def forward(self, a, b):
            x, y = self.embed(a), self.embed(b)
            causal = nn.Transformer.generate_square_subsequent_mask(b.shape[1], dtype=x.dtype) if torch.__version__ > "2" else \
                nn.Transformer.generate_square_subsequent_mask(b.shape[1]).to(x.dtype)
            hidden = (a == 0)
            return self.head(self.body(x, y, tgt_mask=causal, src_key_padding_mask=hidden, memory_key_padding_mask=hidden))
    a = words()
    a[1, 11:] = 0
    return Example(Net(), (a, words(BATCH, 8)), loss=lambda m, i: F.cross_entropy(m(*i).float().transpose(1, 2), i[1], ignore_index=7))


def speaker():
    return Example(Speaker(), (words(),), loss=lambda m, i: F.cross_entropy(m(*i)[:, :-1].float().flatten(0, 1), i[0][:, 1:].flatten()))


def contrastive():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(24, 16)), nn.Linear(12, 16)
            self.scale = nn.Parameter(torch.tensor([2.6]))

        def forward(self, x, y):
            a, b = F.normalize(self.a(x), dim=-1), F.normalize(self.b(y), dim=-1)
            logits = self.scale.exp().clamp(max=100) * a @ b.t()
            own = torch.arange(len(x))
            triplet = F.triplet_margin_loss(a, b, b.roll(1, 0)) + F.cosine_embedding_loss(a, b, torch.ones(len(x)))
            apart = F.kl_div(logits.log_softmax(-1), logits.detach().softmax(-1).roll(1, 0), reduction="batchmean")
            return (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) / 2 + triplet + apart + torch.cdist(a, b).mean()
    return Example(Net(), (torch.randn(8, 24), torch.randn(8, 12)), loss=lambda m, i: m(*i))

# --- by hand, the second set ------------------------------------------------------------------------------------------

def dpo():
    def loss(model, inputs):
        better, worse, ref = inputs
        def score(ids):
            logp = model(ids[:, :-1]).float().log_softmax(-1)
            return logp.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)
        margin = score(better) - score(worse) - ref.float()
        return -F.logsigmoid(0.1 * margin).mean() + 0.01 * F.softplus(-margin).mean()
    return Example(Speaker(), (words(), words(), torch.randn(BATCH)), loss=loss)


def wavenet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.skip = nn.Embedding(32, 16), nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(3)])
            self.gates = nn.ModuleList([nn.Conv1d(16, 32, 2, dilation=2 ** i) for i in range(3)])
            self.out = nn.Conv1d(16, 32, 1)

        def forward(self, ids):
            x, total = self.embed(ids).transpose(1, 2), 0
            for i, (g, s) in enumerate(zip(self.gates, self.skip)):
                a, b = g(F.pad(x, (2 ** i, 0))).chunk(2, 1)
                y = s(torch.tanh(a) * torch.sigmoid(b))
                x, total = x + y, total + y
            return self.out(F.relu(total))
    return Example(Net(), (words(BATCH, 24) % 32,), loss=lambda m, i: F.nll_loss(m(*i).float().log_softmax(1), i[0]))


def nerf():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.rgb = nn.Linear(3 * 8, 32), nn.Linear(32 + 24, 32), nn.Linear(32, 4)

        def forward(self, points):
            f = 2.0 ** torch.arange(4, dtype=points.dtype)
            e = (points[..., None] * f).flatten(-2)
            e = torch.cat([e.sin(), e.cos()], -1)
            y = self.rgb(F.relu(self.b(torch.cat([F.relu(self.a(e)), e], -1))))
            alpha = 1 - torch.exp(-F.softplus(y[..., 3]) * 0.1)
            through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-5], 1), 1)[:, :-1]
            return ((alpha * through)[..., None] * y[..., :3].sigmoid()).sum(1)
    return Example(Net(), (torch.rand(8, 12, 3),))


def flow():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.nets = nn.Parameter(torch.linalg.qr(torch.randn(8, 8))[0]), nn.ModuleList([nn.Sequential(
                nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(2)])

        def forward(self, x):
            z, det = x.float() @ self.w.float().t(), torch.linalg.slogdet(self.w.float())[1]
            for net in self.nets:
                a, b = z.chunk(2, -1)
                s, t = net(a.to(self.w.dtype)).float().chunk(2, -1)
                s = torch.tanh(s)
                z, det = torch.cat([b * s.exp() + t, a], -1), det + s.sum(-1)
            return (0.5 * z.pow(2).sum(-1) + 4 * math.log(2 * math.pi) - det).mean()
    return Example(Net(), (torch.randn(16, 8),), loss=lambda m, i: m(*i))


def pointnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm, self.out = nn.Conv1d(3, 16, 1), nn.Conv1d(22, 32, 1), nn.BatchNorm1d(16), nn.Linear(32, 2)

        def forward(self, p):
            near = torch.cdist(p.float(), p.float()).topk(4, largest=False)[1]
            groups = torch.gather(p[:, None].expand(-1, p.shape[1], -1, -1), 2, near[..., None].expand(-1, -1, -1, 3))
            x = F.relu(self.norm(self.a(p.transpose(1, 2))))
            spread = (groups - p[:, :, None]).amax(2).transpose(1, 2)
            x = torch.cat([x, spread, groups.mean(2).transpose(1, 2)], 1)
            return self.out(F.gelu(self.b(x)).max(-1)[0])
    return Example(Net(), (torch.randn(BATCH, 20, 3),), loss=classes)


def spectral_mixer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.filter, self.lin = nn.Parameter(torch.randn(16, 9, dtype=torch.float32) * .2), nn.Linear(16, 16)
            self.log, self.mix = nn.Parameter(torch.randn(16)), nn.Bilinear(16, 16, 8)

        def forward(self, x):
            y = torch.fft.irfft(torch.fft.rfft(x.float(), dim=1) * self.filter.float().t(), n=x.shape[1], dim=1).to(x.dtype)
            k = torch.logcumsumexp((self.log.float()[None, None] * torch.ones(1, x.shape[1], 1)), 1).to(x.dtype)
            y = self.lin(y * torch.sigmoid(k)) + x.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
            return self.mix(y, x.roll(1, 1))
    return Example(Net(), (torch.randn(BATCH, 16, 16),))


def distilled():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.SELU(), nn.Linear(32, 24), nn.Softsign(), nn.Linear(24, 8))

        def forward(self, x, teacher, several):
            y = self.net(x).float() / 2
            p = teacher.float().softmax(-1)
            js = (p + y.softmax(-1)) / 2
            apart = (F.kl_div(js.log(), p, reduction="sum") + F.kl_div(y.log_softmax(-1), js, reduction="sum")) / 16
            return apart + F.multilabel_soft_margin_loss(y, several) + F.multi_margin_loss(y, p.argmax(-1)) + \
                F.poisson_nll_loss(y, several) + F.gaussian_nll_loss(y, p, F.softplus(y) + .1) + F.cross_entropy(y, p)
    return Example(Net(), (torch.randn(8, 16), torch.randn(8, 8), (torch.rand(8, 8) > .5).float()), loss=lambda m, i: m(*i))


def kan():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.scale = nn.ParameterList([nn.Parameter(torch.randn(8, 8, 6) * .1) for _ in range(2)]), nn.ParameterList(
                [nn.Parameter(torch.ones(8, 8)) for _ in range(2)])

        def forward(self, x):
            grid = torch.linspace(-2, 2, 6, dtype=x.dtype)
            for w, s in zip(self.w, self.scale):
                base = torch.exp(-((x.unsqueeze(-1) - grid) / .8) ** 2)
                x = torch.einsum("bik,oik->bo", base, w) + F.linear(F.silu(x), s) + torch.addmm(x.new_zeros(8), x, s, alpha=.1)
                x = x / x.norm(dim=-1, keepdim=True).clamp_min(1e-3)
            return x
    return Example(Net(), (torch.randn(8, 8),))


def double_precision():
    example = vae()
    model = example.model.double()
    return Example(model, tuple(t.double() for t in example.inputs), loss=lambda m, i: m(*(t.to(next(m.parameters()).dtype) for t in i)))


def deepset_ema():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Sequential(nn.Linear(12, 24), nn.Hardswish(), nn.Linear(24, 8))
            self.k = nn.Sequential(nn.Linear(12, 24), nn.Hardswish(), nn.Linear(24, 8))
            self.register_buffer("queue", F.normalize(torch.randn(8, 16), dim=0))

        def forward(self, x, y):
            with torch.no_grad():
                for a, b in zip(self.q.parameters(), self.k.parameters()):
                    b.mul_(0.99).add_(a, alpha=0.01)
                k = F.normalize(self.k(y), dim=-1)
            q = F.normalize(self.q(x), dim=-1)
            logits = torch.cat([(q * k).sum(-1, keepdim=True), q @ self.queue.to(q.dtype).clone()], 1).float() / .07
            with torch.no_grad():
                self.queue[:, :len(k)] = k.t()
            return F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
    return Example(Net(), (torch.randn(8, 12), torch.randn(8, 12)), loss=lambda m, i: m(*i))


# --- by hand, the fifth set -------------------------------------------------------------------------------------------

def trains(model, *inputs, images=False):
    """A model that gives its loss itself."""
    return Example(model, inputs, loss=lambda m, i: m(*i), images=images)


def seq2seq():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 16, padding_idx=0)
            self.enc = nn.GRU(16, 12, 2, batch_first=True, bidirectional=True, dropout=0.1)
            self.cell, self.key, self.query, self.score = nn.GRUCell(40, 24), nn.Linear(24, 16), nn.Linear(24, 16), nn.Linear(16, 1)
            self.out = nn.Linear(48, WORDS)

        def forward(self, a, lengths, b):
            packed = nn.utils.rnn.pack_padded_sequence(self.embed(a), lengths, batch_first=True, enforce_sorted=False)
            out, last = self.enc(packed)
            memory, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=a.shape[1])
            h, keys, losses = torch.cat([last[-2], last[-1]], -1), self.key(memory), []
            hidden = torch.arange(a.shape[1])[None] >= lengths[:, None]
            for t in range(b.shape[1] - 1):
                e = self.score(torch.tanh(keys + self.query(h)[:, None])).squeeze(-1).masked_fill(hidden, float("-inf"))
                c = torch.bmm(e.softmax(-1)[:, None].to(memory.dtype), memory).squeeze(1)
                h = self.cell(torch.cat([self.embed(b[:, t]), c.to(self.embed.weight.dtype)], -1), h)
                losses.append(F.cross_entropy(self.out(torch.cat([h.to(c.dtype), c], -1)).float(), b[:, t + 1], reduction="none"))
            return torch.stack(losses, 1).mean()
    a = words(4, 10)
    lengths = torch.tensor([7, 10, 3, 9])
    a[torch.arange(10)[None] >= lengths[:, None]] = 0
    return trains(Net(), a, lengths, words(4, 6))


def gcn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.gate, self.out = nn.Linear(12, 24), nn.Linear(24, 24), nn.Linear(72, 24), nn.Linear(24, 5)
            self.norm, self.eps = nn.BatchNorm1d(24), nn.Parameter(torch.zeros(1))

        def forward(self, x, edges, labels, known):
            src, dst = edges
            degree = torch.zeros(len(x), dtype=torch.float32).scatter_add_(0, dst, torch.ones(len(dst))) + 1
            weight = (degree.rsqrt()[src] * degree.rsqrt()[dst]).to(x.dtype)
            h = self.a(x)
            h = F.relu(torch.zeros_like(h).index_add_(0, dst, h[src] * weight[:, None].to(h.dtype)) + h / degree[:, None].to(h.dtype))
            m = self.b(h)[src]
            spread = dst[:, None].expand_as(m)
            parts = [torch.zeros_like(m[:len(x)]).scatter_reduce(0, spread, m, how, include_self=False) for how in ("mean", "amax", "amin")]
            h = self.norm((1 + self.eps) * h + self.gate(torch.cat(parts, -1)))
            y = self.out(F.dropout(F.elu(h), 0.1, self.training))
            return F.cross_entropy(y[known].float(), labels[known])
    edges = torch.cat([torch.randint(0, 16, (2, 40)), torch.arange(16).repeat(2, 1)], 1)
    return trains(Net(), torch.randn(16, 12), edges, torch.randint(0, 5, (16,)), torch.arange(16) % 3 > 0)


def edm():
    class Net(nn.Module):
        def __init__(self, w=16):
            super().__init__()
            self.freqs = nn.Buffer(torch.randn(8)) if hasattr(nn, "Buffer") else torch.randn(8)
            self.time, self.text = nn.Sequential(nn.Linear(16, w), nn.SiLU(), nn.Linear(w, w)), nn.Linear(12, w)
            self.first, self.a, self.b, self.c = nn.Conv2d(3, w, 3, padding=1), Residual(w, w, w), Residual(w, 2 * w, w), Residual(3 * w, w, w)
            self.norm, self.cross = nn.GroupNorm(4, 2 * w), nn.MultiheadAttention(2 * w, 4, kdim=w, vdim=w, batch_first=True)
            self.last = nn.Conv2d(w, 3, 3, padding=1)

        def forward(self, x, t, text, drop):
            angle = t[:, None].float() * self.freqs.float() * 2 * math.pi
            t = self.time(torch.cat([angle.cos(), angle.sin()], -1).to(x.dtype))
            text = torch.where(drop[:, None, None], torch.zeros_like(text), text)
            x = self.a(self.first(x), t)
            h = self.b(F.avg_pool2d(x, 2), t)
            q = self.norm(h).flatten(2).transpose(1, 2)
            k = self.text(text)
            h = h + self.cross(q, k.to(q.dtype), k.to(q.dtype), need_weights=False)[0].transpose(1, 2).reshape(h.shape)
            h = F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False)
            return self.last(F.silu(self.c(torch.cat([h, x], 1), t)))

    def loss(model, inputs):
        x, noise, text, drop = inputs
        sigma = (torch.tensor([-1.2, 0.4]) * 1.2 - 1.2).exp()
        s = sigma[:, None, None, None]
        skip, out, into = .25 / (s ** 2 + .25), s * .5 / (s ** 2 + .25).sqrt(), 1 / (s ** 2 + .25).sqrt()
        noisy = x.float() + noise.float() * s
        y = skip * noisy + out * model((into * noisy).to(x.dtype), sigma.log() / 4, text, drop).float()
        weight = (s ** 2 + .25) / (s * .5) ** 2
        return (weight * (y - x.float()) ** 2).mean()
    shape = (BATCH, 3, 16, 16)
    return Example(Net(), (torch.randn(shape), torch.randn(shape), torch.randn(BATCH, 5, 12), torch.tensor([False, True])), loss=loss, images=True)


def vqvae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc = nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(16, 8, 3, padding=1))
            self.dec = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace=True), nn.ConvTranspose2d(16, 3, 4, 2, 1))
            self.register_buffer("codes", torch.randn(32, 8))
            self.register_buffer("size", torch.ones(32))

        def forward(self, x):
            z = self.enc(x).permute(0, 2, 3, 1)
            flat = z.reshape(-1, 8).float()
            codes = self.codes.float()
            apart = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ codes.t() + codes.pow(2).sum(1)
            near = apart.argmin(1)
            q = F.embedding(near, codes).view(z.shape)
            if self.training:
                with torch.no_grad():
                    hot = F.one_hot(near, 32).float()
                    self.size.lerp_(hot.sum(0).to(self.size.dtype), 0.01)
                    self.codes.mul_(0.99).add_((hot.t() @ flat / self.size.float().clamp(min=1)[:, None]).to(self.codes.dtype), alpha=0.01)
            commit = F.mse_loss(z.float(), q.detach())
            q = z + (q.to(z.dtype) - z).detach()
            share = F.one_hot(near, 32).float().mean(0)
            perplexity = torch.exp(-(share * (share + 1e-10).log()).sum())
            return F.mse_loss(self.dec(q.permute(0, 3, 1, 2)).float(), x.float()) + .25 * commit + 0 * perplexity
    return trains(Net(), torch.randn(BATCH, 3, 16, 16), images=True)


def gaussian_vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Sequential(nn.Linear(24, 32), nn.Softplus(), nn.Linear(32, 12)), nn.Sequential(nn.Linear(6, 32), nn.CELU(), nn.Linear(32, 24))

        def forward(self, x):
            mu, scale = self.enc(x).float().chunk(2, -1)
            q = torch.distributions.Normal(mu, F.softplus(scale) + 1e-4)
            prior = torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(mu))
            z = q.rsample((3,))
            y = self.dec(z.to(x.dtype)).float()
            fit = torch.distributions.Bernoulli(logits=y).log_prob((x > 0).float().expand_as(y)).sum(-1)
            bound = torch.logsumexp(fit + prior.log_prob(z).sum(-1) - q.log_prob(z).sum(-1), 0) - math.log(3)
            return -bound.mean() + .1 * torch.distributions.kl_divergence(q, prior).sum(-1).mean()
    return trains(Net(), torch.randn(8, 24))


def detection_head():
    torchvision = package("torchvision")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6(), nn.Conv2d(16, 16, 3, 2, 1), nn.Hardswish())
            self.pyramid = torchvision.ops.FeaturePyramidNetwork([16, 16], 16)
            self.down = nn.Conv2d(16, 16, 3, 2, 1)
            self.cls, self.box, self.centre = nn.Conv2d(16, 3, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
            nn.init.constant_(self.cls.bias, -2.0)

        def forward(self, x, gold, kinds):
            x = self.body(x)
            levels = self.pyramid({"0": x, "1": self.down(x)})
            total = 0
            for level, f in levels.items():
                stride = 4 << int(level)
                h, w = f.shape[-2:]
                ys, xs = torch.meshgrid(torch.arange(h) * stride + stride // 2, torch.arange(w) * stride + stride // 2, indexing="ij")
                at = torch.stack([xs, ys], -1).reshape(-1, 2).float()
                cls, ltrb, centre = (m(f).float().flatten(2).transpose(1, 2) for m in (self.cls, self.box, self.centre))
                ltrb = F.softplus(ltrb) * stride
                boxes = torch.cat([at - ltrb[..., :2], at + ltrb[..., 2:]], -1)
                iou = torchvision.ops.box_iou(boxes[0].detach(), gold[0])
                best, match = iou.max(1)
                inside = best > best.median()
                target = torch.zeros_like(cls)
                target[0, inside, kinds[match[inside]]] = 1
                total = total + torchvision.ops.sigmoid_focal_loss(cls, target, reduction="sum") / inside.sum().clamp(min=1)
                total = total + torchvision.ops.generalized_box_iou_loss(boxes[0, inside], gold[0, match[inside]], reduction="mean")
                total = total + torchvision.ops.complete_box_iou_loss(boxes[0, inside], gold[0, match[inside]], reduction="mean")
                total = total + F.binary_cross_entropy_with_logits(centre[0, inside, 0], best[inside].clamp(0, 1))
                torchvision.ops.batched_nms(boxes[0].detach(), cls[0].detach().max(-1)[0], cls[0].detach().argmax(-1), 0.5)
            return total
    return trains(Net(), torch.randn(BATCH, 3, 32, 32), torch.tensor([[[2., 3, 20, 18], [10, 12, 30, 31]]]), torch.tensor([0, 2]), images=True)


def small_body(torchvision, width=16):
    body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), torchvision.ops.FrozenBatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, width, 3, 2, 1), nn.ReLU())
    body.out_channels = width
    return body


def found(masks=False):
    t = dict(boxes=torch.tensor([[4., 5, 30, 28], [20, 18, 50, 55]]), labels=torch.tensor([1, 2]))
    return dict(t, masks=(torch.rand(2, 64, 64) > .5).to(torch.uint8)) if masks else t


def detector(kind):
    def make():
        torchvision = package("torchvision")
        from torchvision.models import detection
        anchors = detection.anchor_utils.AnchorGenerator(((8, 16, 32),), ((.5, 1., 2.),))
        pool = torchvision.ops.MultiScaleRoIAlign(["0"], 7, 2)
        same = dict(num_classes=3, min_size=64, max_size=64)
        if kind == "mask-rcnn":
            model = detection.MaskRCNN(small_body(torchvision), rpn_anchor_generator=anchors, box_roi_pool=pool, rpn_pre_nms_top_n_train=40, rpn_post_nms_top_n_train=20,
                                       box_batch_size_per_image=16, mask_roi_pool=torchvision.ops.MultiScaleRoIAlign(["0"], 14, 2),
                                       mask_head=detection.mask_rcnn.MaskRCNNHeads(16, (16,), 1), mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(16, 16, 3),
                                       box_head=detection.faster_rcnn.TwoMLPHead(16 * 49, 32), box_predictor=detection.faster_rcnn.FastRCNNPredictor(32, 3),
                                       **{k: v for k, v in same.items() if k != "num_classes"})
        elif kind == "retinanet":
            model = detection.RetinaNet(small_body(torchvision), anchor_generator=anchors, **same)
        else:
            model = detection.FCOS(small_body(torchvision, 32), anchor_generator=detection.anchor_utils.AnchorGenerator(((8,),), ((1.,),)), **same)
        targets = [found(kind == "mask-rcnn") for _ in range(BATCH)]
        return Example(model, (torch.rand(BATCH, 3, 64, 64), targets),
                       loss=lambda m, i: sum(v.float() for v in m(list(i[0]), i[1]).values()))
    return make


def ctc():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(nn.Conv1d(20, 24, 5, 2, 2), nn.BatchNorm1d(24), nn.Hardtanh(0, 20), nn.Conv1d(24, 24, 3, padding=1, groups=4))
            self.rnn, self.out = nn.LSTM(24, 16, batch_first=True, bidirectional=True, proj_size=8), nn.Linear(16, 12)

        def forward(self, x, frames, labels, lengths):
            x = self.conv(x).transpose(1, 2)
            frames = (frames + 1) // 2
            packed = nn.utils.rnn.pack_padded_sequence(x, frames, batch_first=True)
            x, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            logp = self.out(x).float().log_softmax(-1).transpose(0, 1)
            return F.ctc_loss(logp, labels, frames, lengths, zero_infinity=True) + 0.01 * -(logp.exp() * logp).sum(-1).mean()
    return trains(Net(), torch.randn(3, 20, 30), torch.tensor([30, 24, 17]), torch.randint(1, 12, (3, 5)), torch.tensor([5, 3, 4]))


def capacity_moe():
    class Net(nn.Module):
        def __init__(self, d=24, n=4):
            super().__init__()
            self.embed, self.gate, self.head = nn.Embedding(WORDS, d), nn.Linear(d, n, bias=False), nn.Linear(d, WORDS)
            self.up, self.down, self.n = nn.Parameter(torch.randn(n, d, 2 * d) * .1), nn.Parameter(torch.randn(n, 2 * d, d) * .1), n

        def forward(self, ids):
            x = self.embed(ids).flatten(0, 1)
            logits = self.gate(x).float()
            logits = logits + torch.empty_like(logits).uniform_(-.01, .01)
            p = logits.softmax(-1)
            weight, chosen = p.max(-1)
            hot = F.one_hot(chosen, self.n)
            place = (hot.cumsum(0) - 1) * hot
            kept = hot * (place < 6)
            room = F.one_hot(place.sum(-1).clamp(max=5), 6).to(x.dtype) * kept.sum(-1, keepdim=True).to(x.dtype)
            dispatch = torch.einsum("te,tc->tec", kept.to(x.dtype), room)
            into = torch.einsum("tec,td->ecd", dispatch, x)
            h = torch.baddbmm(torch.zeros(1, dtype=into.dtype), torch.relu(torch.bmm(into, self.up.to(into.dtype))), self.down.to(into.dtype))
            y = torch.einsum("tec,ecd->td", dispatch * weight[:, None, None].to(x.dtype), h)
            balance = self.n * (hot.float().mean(0) * p.mean(0)).sum() + 1e-3 * torch.logsumexp(logits, -1).square().mean()
            return F.cross_entropy(self.head(x + y).float(), ids.flatten().roll(-1)) + .01 * balance
    return trains(Net(), words())


def s4d():
    class Net(nn.Module):
        def __init__(self, d=12, n=8):
            super().__init__()
            self.log_dt, self.real = nn.Parameter(torch.rand(d) * 2 - 4), nn.Parameter(torch.log(.5 * torch.ones(d, n)))
            self.imag, self.c = nn.Parameter(math.pi * torch.arange(n).repeat(d, 1).float()), nn.Parameter(torch.randn(d, n, 2) * .5)
            self.skip, self.mix, self.out = nn.Parameter(torch.ones(d)), nn.Conv1d(d, 2 * d, 1), nn.Linear(d, 3)

        def forward(self, u, y):
            n = u.shape[-1]
            dt, c = self.log_dt.float().exp(), torch.view_as_complex(self.c.float())
            a = torch.complex(-self.real.float().exp(), self.imag.float())
            z = a * dt[:, None]
            k = (c * (torch.exp(z) - 1.) / a)[..., None] * torch.exp(z[..., None] * torch.arange(n))
            k = 2 * k.sum(1).real
            v = torch.fft.irfft(torch.fft.rfft(u.float(), n=2 * n) * torch.fft.rfft(k, n=2 * n), n=2 * n)[..., :n]
            h = F.glu(self.mix(F.gelu(v + self.skip.float()[:, None] * u.float()).to(self.mix.weight.dtype)), 1)
            return F.cross_entropy(self.out(h.mean(-1)).float(), y)
    return trains(Net(), torch.randn(4, 12, 24), torch.tensor([0, 2, 1, 1]))


def selective_scan():
    class Net(nn.Module):
        def __init__(self, d=16, n=4):
            super().__init__()
            self.embed, self.into, self.conv = nn.Embedding(WORDS, d), nn.Linear(d, 2 * d), nn.Conv1d(d, d, 4, groups=d, padding=3)
            self.bcdt, self.dt, self.log_a, self.out = nn.Linear(d, 2 * n + 2), nn.Linear(2, d), nn.Parameter(torch.arange(1., n + 1).log().repeat(d, 1)), nn.Linear(d, WORDS)
            self.norm = nn.RMSNorm(d) if hasattr(nn, "RMSNorm") else nn.LayerNorm(d)

        def forward(self, ids):
            x, gate = self.into(self.norm(self.embed(ids))).chunk(2, -1)
            x = F.silu(self.conv(x.transpose(1, 2))[..., :ids.shape[1]]).transpose(1, 2)
            dt, b, c = self.bcdt(x).split([2, 4, 4], -1)
            dt = F.softplus(self.dt(dt)).float()
            decay = torch.exp(dt[..., None] * -self.log_a.float().exp())
            add = (dt * x.float())[..., None] * b[:, :, None].float()
            h, ys = torch.zeros_like(add[:, 0]), []
            for t in range(ids.shape[1]):
                h = torch.addcmul(add[:, t], decay[:, t], h)
                ys.append(torch.einsum("bdn,bn->bd", h, c[:, t].float()))
            y = torch.stack(ys, 1).to(x.dtype) * F.silu(gate)
            return F.cross_entropy(self.out(y)[:, :-1].float().flatten(0, 1), ids[:, 1:].flatten())
    return trains(Net(), words())


def ppo():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
            self.pi, self.v = nn.Linear(32, 4), nn.Linear(32, 1)
            nn.init.orthogonal_(self.pi.weight, .01)

        def forward(self, seen, acts, old, rewards, done, values):
            with torch.no_grad():
                advantage, last = torch.zeros_like(rewards), 0
                for t in reversed(range(len(rewards) - 1)):
                    delta = rewards[t] + .99 * values[t + 1] * (1 - done[t]) - values[t]
                    advantage[t] = last = delta + .99 * .95 * (1 - done[t]) * last
                returns = advantage + values
                a = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).float()
            h = self.body(seen)
            policy = torch.distributions.Categorical(logits=self.pi(h).float())
            ratio = (policy.log_prob(acts) - old.float()).exp()
            v = self.v(h).squeeze(-1).float()
            near = values.float() + (v - values.float()).clamp(-.2, .2)
            loss_v = .5 * torch.maximum((v - returns.float()) ** 2, (near - returns.float()) ** 2).mean()
            return torch.max(-a * ratio, -a * ratio.clamp(.8, 1.2)).mean() + .5 * loss_v - .01 * policy.entropy().mean()
    return trains(Net(), torch.randn(20, 8), torch.randint(0, 4, (20,)), torch.randn(20) * .1 - 1.4, torch.randn(20), (torch.rand(20) > .9).float(), torch.randn(20))


def sac():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
            self.q = nn.ModuleList([nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1)) for _ in range(2)])
            self.old = nn.ModuleList([nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1)) for _ in range(2)]).requires_grad_(False)
            self.log_alpha = nn.Parameter(torch.zeros(()))

        def act(self, s):
            mu, log = self.actor(s).float().chunk(2, -1)
            log = -5 + 3.5 * (torch.tanh(log) + 1)
            d = torch.distributions.Independent(torch.distributions.Normal(mu, log.exp()), 1)
            u = d.rsample()
            return torch.tanh(u), d.log_prob(u) - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)

        def forward(self, s, a, r, after):
            with torch.no_grad():
                for own, old in zip(self.q.parameters(), self.old.parameters()):
                    old.lerp_(own, .005)
                b, logp = self.act(after)
                y = torch.cat([after, b.to(after.dtype)], -1)
                aim = r.float() + .99 * (torch.min(*(q(y).squeeze(-1).float() for q in self.old)) - self.log_alpha.exp().float() * logp)
            x = torch.cat([s, a], -1)
            critic = sum(F.smooth_l1_loss(q(x).squeeze(-1).float(), aim) for q in self.q)
            b, logp = self.act(s)
            best = torch.minimum(*(q(torch.cat([s, b.to(s.dtype)], -1)).squeeze(-1).float() for q in self.q))
            return critic + (self.log_alpha.exp().detach().float() * logp - best).mean() - (self.log_alpha.float() * (logp + 2).detach()).mean()
    return trains(Net(), torch.randn(16, 6), torch.rand(16, 2) * 2 - 1, torch.randn(16), torch.randn(16, 6))


def rainbow():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(2, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
            self.value, self.gain = nn.Linear(32, 11), nn.Linear(32, 33)

        def scores(self, x):
            h = self.body(x)
            g = self.gain(h).unflatten(-1, (3, 11))
            return (self.value(h)[:, None] + g - g.mean(1, keepdim=True)).float()

        def forward(self, s, acts, rewards, after):
            z = torch.linspace(-2, 2, 11)
            with torch.no_grad():
                p = self.scores(after).softmax(-1)
                best = (p * z).sum(-1).argmax(-1)
                p = p[torch.arange(len(p)), best]
                place = ((rewards.float()[:, None] + .9 * z).clamp(-2, 2) + 2) / .4
                low, high = place.floor(), place.ceil()
                aim = torch.zeros_like(p)
                aim.scatter_add_(1, low.long(), p * (high - place + (low == high)))
                aim.scatter_add_(1, high.long(), p * (place - low))
            logp = self.scores(s).log_softmax(-1).gather(1, acts[:, None, None].expand(-1, 1, 11)).squeeze(1)
            return -(aim * logp).sum(-1).mean()
    return trains(Net(), torch.randn(4, 2, 9, 9), torch.randint(0, 3, (4,)), torch.randn(4), torch.randn(4, 2, 9, 9), images=True)


def glow():
    class Net(nn.Module):
        def __init__(self, c=8):
            super().__init__()
            self.loc, self.log, self.mix = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.linalg.qr(torch.randn(c, c))[0])
            self.net = nn.Sequential(nn.Conv2d(c // 2, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, c, 3, padding=1))

        def forward(self, x):
            x = F.pixel_unshuffle(x, 2).float() / 4
            size = x.shape[-1] ** 2
            x = (x + self.loc.float()) * self.log.float().exp()
            w = self.mix.float()
            x = F.conv2d(x, w[:, :, None, None])
            a, b = x.chunk(2, 1)
            shift, scale = self.net(a.to(self.mix.dtype)).float().chunk(2, 1)
            scale = torch.sigmoid(scale + 2)
            b = (b + shift) * scale
            det = size * (self.log.float().sum() + torch.linalg.slogdet(w)[1]) + scale.log().flatten(1).sum(1)
            z = torch.cat([a, b], 1)
            prior = -.5 * (z ** 2 + math.log(2 * math.pi)).flatten(1).sum(1)
            return -((prior + det) / z[0].numel()).mean()
    return trains(Net(), torch.randn(BATCH, 2, 8, 8))


def spline_flow():
    class Net(nn.Module):
        def __init__(self, bins=5):
            super().__init__()
            self.net, self.bins = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(), nn.Linear(24, 2 * (3 * bins - 1))), bins

        def forward(self, x):
            a, b = x.chunk(2, -1)
            k = self.bins
            w, h, d = self.net(a).float().unflatten(-1, (2, 3 * k - 1)).split([k, k, k - 1], -1)
            w, h = (1e-3 + (1 - 1e-3 * k) * v.softmax(-1) for v in (w, h))
            xs, ys = (F.pad(v.cumsum(-1), (1, 0)) * 6 - 3 for v in (w, h))
            d = F.pad(F.softplus(d) + 1e-3, (1, 1), value=1.0)
            b = b.float().clamp(-2.9, 2.9)
            i = (torch.searchsorted(xs.detach().contiguous(), b.detach().unsqueeze(-1).contiguous()) - 1).clamp(0, k - 1)
            at = lambda v, o=0: v.gather(-1, i + o).squeeze(-1)
            wide, tall = at(xs, 1) - at(xs), at(ys, 1) - at(ys)
            t, s = (b - at(xs)) / wide, tall / wide
            t1 = t * (1 - t)
            down = s + (at(d, 1) + at(d) - 2 * s) * t1
            y = at(ys) + tall * (s * t ** 2 + at(d) * t1) / down
            slope = s ** 2 * (at(d, 1) * t ** 2 + 2 * s * t1 + at(d) * (1 - t) ** 2) / down ** 2
            return (.5 * (y ** 2 + a.float() ** 2).sum(-1) - slope.log().sum(-1)).mean()
    return trains(Net(), torch.randn(16, 4))


def hash_grid():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ParameterList([nn.Parameter(torch.randn(64, 2) * 1e-1) for _ in range(3)])
            self.sigma, self.rgb = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 9)), nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 3))

        def forward(self, rays, view, aim):
            t = torch.linspace(.1, 1.9, 10)
            p = (rays[:, None].float() + view[:, None].float() * t[:, None] + 3).clamp(0, 5.99) / 6
            features = []
            for level, table in enumerate(self.tables):
                x = p * (4 << level)
                low = x.floor().long()
                part = x - low
                total = 0
                for corner in range(8):
                    o = torch.tensor([corner & 1, corner >> 1 & 1, corner >> 2])
                    c = low + o
                    i = torch.bitwise_xor(torch.bitwise_xor(c[..., 0], c[..., 1] * 2654435761), c[..., 2] * 805459861) % 64
                    weight = torch.where(o.bool(), part, 1 - part).prod(-1, keepdim=True)
                    total = total + weight.to(table.dtype) * table[i]
                features.append(total)
            y = self.sigma(torch.cat(features, -1))
            density = torch.exp(y[..., 0].float().clamp(max=10))
            colour = torch.sigmoid(self.rgb(torch.cat([y[..., 1:], view[:, None].expand(-1, 10, -1).to(y.dtype)], -1))).float()
            tau = density * .18
            weight = torch.exp(-F.pad(tau.cumsum(-1), (1, 0))[:, :-1]) * -torch.expm1(-tau)
            seen = (weight[..., None] * colour).sum(1) + (1 - weight.sum(-1, keepdim=True))
            spread = (weight[:, :, None] * weight[:, None] * (t[:, None] - t).abs()).sum((-1, -2)).mean()
            return F.mse_loss(seen, aim.float()) + .01 * spread
    return trains(Net(), torch.rand(12, 3), F.normalize(torch.randn(12, 3), dim=-1), torch.rand(12, 3))


def splatting():
    class Net(nn.Module):
        def __init__(self, n=12):
            super().__init__()
            self.at, self.scale, self.turn = nn.Parameter(torch.rand(n, 3) * 2 - 1), nn.Parameter(torch.full((n, 3), -1.2)), nn.Parameter(torch.randn(n, 4))
            self.opacity, self.colour = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.rand(n, 3))

        def forward(self, aim):
            w, x, y, z = F.normalize(self.turn.float(), dim=-1).unbind(-1)
            r = torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                             2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1).view(-1, 3, 3)
            m = r @ torch.diag_embed(self.scale.float().exp())
            cov = (m @ m.mT)[:, :2, :2] + .02 * torch.eye(2)
            inverse = torch.linalg.inv(cov)
            order = self.at[:, 2].argsort()
            ys, xs = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij")
            d = torch.stack([xs, ys], -1).view(-1, 1, 2) - self.at.float()[order, :2]
            power = -.5 * torch.einsum("pni,nij,pnj->pn", d, inverse[order], d)
            alpha = (torch.sigmoid(self.opacity.float())[order] * power.exp()).clamp(max=.99)
            through = torch.cumprod(F.pad(1 - alpha, (1, 0), value=1.)[:, :-1], -1)
            image = ((alpha * through) @ self.colour.float()[order]).clamp(0, 1)
            return F.l1_loss(image, aim.float()) + (1 - F.cosine_similarity(image, aim.float(), dim=-1)).mean()
    return trains(Net(), torch.rand(64, 3))


def arcface():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.PReLU(16), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16, affine=False))
            self.weight, self.centres = nn.Parameter(torch.randn(10, 16)), nn.Parameter(torch.randn(10, 16))

        def forward(self, x, y):
            f = self.body(x)
            cosine = F.linear(F.normalize(f), F.normalize(self.weight).to(f.dtype)).float().clamp(-1 + 1e-5, 1 - 1e-5)
            hot = F.one_hot(y, 10).bool()
            angle = torch.acos(cosine)
            logits = 16 * torch.where(hot, torch.cos(angle + .3), cosine)
            near = F.pairwise_distance(f.float(), self.centres.float()[y])
            return F.cross_entropy(logits, y) + .01 * near.mean() + F.margin_ranking_loss(near[:2], near[2:], torch.ones(2), margin=.1)
    return trains(Net(), torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,)), images=True)


def recommender():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.ModuleList([nn.Embedding(20, 8, max_norm=2.0) if i == 0 else nn.Embedding(20, 8) for i in range(4)])
            self.first = nn.ModuleList([nn.Embedding(20, 1) for _ in range(4)])
            self.cross = nn.ParameterList([nn.Parameter(torch.randn(32) * .1) for _ in range(2)])
            self.deep, self.dice = nn.Sequential(nn.Linear(32, 16), nn.BatchNorm1d(16), nn.RReLU(), nn.AlphaDropout(.1), nn.Linear(16, 1)), nn.Linear(32, 1)

        def forward(self, ids, y):
            e = torch.stack([t(i) for t, i in zip(self.embed, ids.unbind(1))], 1)
            linear = sum(t(i) for t, i in zip(self.first, ids.unbind(1))).squeeze(-1)
            fm = .5 * (e.sum(1).square() - e.square().sum(1)).sum(-1)
            x = x0 = e.flatten(1)
            for w in self.cross:
                x = x0 * (x @ w.to(x.dtype))[:, None] + x
            score = (linear + fm + self.deep(x0).squeeze(-1) + self.dice(x).squeeze(-1)).float()
            bpr = -F.logsigmoid(score[y > .5].mean() - score[y <= .5].mean())
            return F.binary_cross_entropy(torch.sigmoid(score), y.float()) + bpr + 1e-4 * sum(p.float().norm() for p in self.parameters())
    return trains(Net(), torch.randint(0, 20, (12, 4)), (torch.arange(12) % 2).float())


def convlstm():
    class Net(nn.Module):
        def __init__(self, c=8):
            super().__init__()
            self.gates, self.peep, self.out = nn.Conv2d(1 + c, 4 * c, 3, padding=1, padding_mode="circular"), nn.Parameter(torch.zeros(3, c, 8, 8)), nn.Conv3d(c, 1, (3, 1, 1), padding=(1, 0, 0))

        def forward(self, x):
            h = c = x.new_zeros(x.shape[0], 8, 8, 8)
            seen = []
            for t in range(x.shape[1]):
                i, f, o, g = self.gates(torch.cat([x[:, t], h.to(x.dtype)], 1)).chunk(4, 1)
                i, f = torch.sigmoid(i + self.peep[0] * c), torch.sigmoid(f + self.peep[1] * c + 1)
                c = f * c + i * torch.tanh(g)
                h = torch.sigmoid(o + self.peep[2] * c) * torch.tanh(c)
                seen.append(h)
            y = self.out(torch.stack(seen, 2)).squeeze(1)
            return F.mse_loss(y[:, :-1].float(), x[:, 1:, 0].float()) + (y[:, 1:] - y[:, :-1]).abs().float().mean()
    return trains(Net(), torch.rand(BATCH, 4, 1, 8, 8))


def capsules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.w = nn.Conv2d(1, 16, 5, 2), nn.Parameter(torch.randn(1, 72, 4, 6, 8) * .1)

        def forward(self, x, y):
            def squash(v):
                n = v.square().sum(-1, keepdim=True)
                return n / (1 + n) * v / torch.sqrt(n + 1e-7)
            u = squash(self.conv(x).float().reshape(len(x), 72, 8))
            votes = (self.w.float() @ u[:, :, None, :, None]).squeeze(-1)
            b = torch.zeros(votes.shape[:3])
            for _ in range(3):
                v = squash((b.softmax(2)[..., None] * votes).sum(1))
                b = b + (votes.detach() * v.detach()[:, None]).sum(-1)
            n = torch.linalg.vector_norm(v, dim=-1)
            hot = F.one_hot(y, 4).float()
            return (hot * F.relu(.9 - n) ** 2 + .5 * (1 - hot) * F.relu(n - .1) ** 2).sum(-1).mean()
    return trains(Net(), torch.randn(BATCH, 1, 15, 15), torch.tensor([1, 3]), images=True)


def neural_ode():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.f, self.head = nn.Sequential(nn.Linear(5, 24), nn.Tanhshrink(), nn.Linear(24, 4)), nn.Linear(4, 2)

        def forward(self, x, aim):
            def f(t, x):
                return self.f(torch.cat([x, torch.full_like(x[:, :1], t)], -1)).to(x.dtype)
            step, path = .25, []
            for i in range(4):
                t = i * step
                k1 = f(t, x)
                k2 = f(t + step / 2, torch.add(x, k1, alpha=step / 2))
                k3 = f(t + step / 2, torch.add(x, k2, alpha=step / 2))
                k4 = f(t + step, torch.add(x, k3, alpha=step))
                x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
                path.append(x)
            y = torch.stack(path, 1)
            return F.mse_loss(self.head(y).float(), aim.float()) + 1e-2 * torch.trapezoid(y.float().square().sum(-1), dx=step, dim=1).mean()
    return trains(Net(), torch.randn(8, 4), torch.randn(8, 4, 2))


def transformer_xl():
    class Net(nn.Module):
        def __init__(self, d=24, heads=3):
            super().__init__()
            self.embed, self.q, self.kv, self.r, self.o = nn.Embedding(WORDS, d), nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d)
            self.u, self.v, self.norm, self.heads = nn.Parameter(torch.randn(heads, 8) * .1), nn.Parameter(torch.randn(heads, 8) * .1), nn.LayerNorm(d), heads
            self.softmax = nn.AdaptiveLogSoftmaxWithLoss(d, WORDS, [20, 50])

        def forward(self, ids, memory):
            x = self.embed(ids)
            both = torch.cat([memory.to(x.dtype), x], 1)
            b, n, m = len(x), x.shape[1], both.shape[1]
            angle = torch.arange(m - 1, -1, -1.)[:, None] / 1e4 ** (torch.arange(0, 24, 2.) / 24)
            r = self.r(torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype)).view(m, self.heads, 8)
            q = self.q(x).view(b, n, self.heads, 8)
            k, v = self.kv(both).view(b, m, 2, self.heads, 8).unbind(2)
            content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
            place = torch.einsum("bihd,jhd->bhij", q + self.v, r)
            place = F.pad(place, (1, 0)).view(b, self.heads, m + 1, n)[:, :, 1:].reshape(b, self.heads, n, m)
            hidden = torch.ones(n, m, dtype=torch.bool).triu(1 + m - n)
            p = ((content + place) / 8 ** .5).masked_fill(hidden, torch.finfo(content.dtype).min).softmax(-1)
            y = self.norm(x + self.o(torch.einsum("bhij,bjhd->bihd", p.to(v.dtype), v).flatten(2)))
            return self.softmax(y[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).loss.float()
    return trains(Net(), words(BATCH, 12), torch.randn(BATCH, 6, 24))


def tacotron():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 16)
            self.convs, self.rnn = nn.Sequential(nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(.2)), nn.LSTM(16, 8, batch_first=True, bidirectional=True)
            self.pre, self.cell = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(.5)), nn.LSTMCell(24, 16)
            self.where, self.loc, self.q, self.m, self.v = nn.Conv1d(2, 4, 5, padding=2, bias=False), nn.Linear(4, 12, bias=False), nn.Linear(16, 12), nn.Linear(16, 12), nn.Linear(12, 1)
            self.out, self.post = nn.Linear(32, 7), nn.Sequential(nn.Conv1d(6, 12, 5, padding=2), nn.BatchNorm1d(12), nn.Tanh(), nn.Conv1d(12, 6, 5, padding=2))

        def forward(self, ids, mel, lengths):
            x, _ = self.rnn(self.convs(self.embed(ids).transpose(1, 2)).transpose(1, 2))
            m = self.m(x)
            h = c = x.new_zeros(len(x), 16)
            near, total, context = x.new_zeros(ids.shape), x.new_zeros(ids.shape), x.new_zeros(len(x), 16)
            frames, stops, before = [], [], mel.new_zeros(len(x), 6)
            for t in range(mel.shape[1]):
                h, c = self.cell(torch.cat([self.pre(before).to(x.dtype), context], -1), (h, c))
                e = self.v(torch.tanh(self.q(h)[:, None] + m + self.loc(self.where(torch.stack([near, total], 1)).transpose(1, 2)))).squeeze(-1)
                near = e.softmax(-1).to(x.dtype)
                total = total + near
                context = torch.einsum("bt,btd->bd", near, x)
                y = self.out(torch.cat([h.to(x.dtype), context], -1))
                frames.append(y[:, :6])
                stops.append(y[:, 6])
                before = mel[:, t]
            y = torch.stack(frames, 1)
            fine = y + self.post(y.transpose(1, 2)).transpose(1, 2)
            keep = (torch.arange(mel.shape[1])[None] < lengths[:, None]).float()
            each = (F.mse_loss(y.float(), mel.float(), reduction="none") + F.l1_loss(fine.float(), mel.float(), reduction="none")).mean(-1)
            return (each * keep).sum() / keep.sum() + F.binary_cross_entropy_with_logits(torch.stack(stops, 1).float(), 1 - keep, pos_weight=torch.tensor(5.))
    return trains(Net(), words(BATCH, 8), torch.randn(BATCH, 5, 6), torch.tensor([5, 3]))


def quantized_training():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.step = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 16, 6), nn.Parameter(torch.tensor(.05))

        def forward(self, x, y):
            w = self.a.weight.float()
            scale = w.detach().abs().amax((1, 2, 3)) / 127
            w = torch.fake_quantize_per_channel_affine(w, scale, torch.zeros(8, dtype=torch.int32), 0, -128, 127)
            h = F.relu(F.conv2d(x, w.to(x.dtype), self.a.bias.to(x.dtype), padding=1))
            h = F.max_pool2d(h, 2)
            s = self.step.float()
            q = h.float() / s
            q = q + (q.clamp(0, 255).round() - q).detach()
            h = (q * s).to(self.b.weight.dtype).flatten(1)
            binary = self.b.weight + (self.b.weight.sign() * self.b.weight.abs().mean() - self.b.weight).detach()
            return F.cross_entropy(F.linear(h, binary, self.b.bias).float(), y)
    return trains(Net(), torch.randn(BATCH, 3, 8, 8), torch.tensor([1, 4]), images=True)


def stylegan():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.map, self.start, self.weight = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(.2)), nn.Parameter(torch.randn(1, 8, 4, 4)), nn.Parameter(torch.randn(8, 8, 3, 3))
            self.style, self.noise, self.rgb = nn.Linear(16, 8), nn.Parameter(torch.zeros(1)), nn.Conv2d(8, 3, 1)
            self.judge = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.LeakyReLU(.2), nn.Conv2d(8, 8, 3, 2, 1), nn.Softplus(), nn.Flatten(), nn.Linear(32, 1))

        def forward(self, z, real, noise):
            b = len(z)
            s = self.style(self.map(z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8))) + 1
            w = self.weight[None].float() * s[:, None, :, None, None].float()
            w = w * torch.rsqrt(w.square().sum((2, 3, 4), keepdim=True) + 1e-8)
            x = F.interpolate(self.start.expand(b, -1, -1, -1), scale_factor=2, mode="bilinear")
            x = F.conv2d(x.reshape(1, b * 8, 8, 8), w.view(b * 8, 8, 3, 3).to(x.dtype), padding=1, groups=b).view(b, 8, 8, 8)
            k = torch.tensor([1., 3, 3, 1], dtype=x.dtype)
            k = (k[:, None] * k / 64)[None, None].repeat(8, 1, 1, 1)
            x = F.conv2d(F.pad(F.leaky_relu(x + self.noise.to(x.dtype) * noise.to(x.dtype), .2) * 2 ** .5, (2, 1, 2, 1)), k, groups=8)
            fake = torch.tanh(self.rgb(x))
            real = real.detach().requires_grad_(True)
            score = self.judge(real)
            slope, = torch.autograd.grad(score.float().sum(), real, create_graph=True)
            penalty = slope.float().square().flatten(1).sum(1).mean()
            return F.softplus(-self.judge(fake).float()).mean() + F.softplus(-score.float()).mean() + 5 * penalty
    return trains(Net(), torch.randn(BATCH, 8), torch.rand(BATCH, 3, 8, 8), torch.randn(BATCH, 1, 8, 8))


def maml():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(1, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 1))

        def forward(self, x, y, x2, y2):
            total, names = 0, dict(self.net.named_parameters())
            for a, b, c, d in zip(x, y, x2, y2):
                fast = names
                for _ in range(2):
                    inner = F.mse_loss(torch.func.functional_call(self.net, fast, (a,)).float(), b.float())
                    slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                    fast = {n: p - .05 * g for (n, p), g in zip(fast.items(), slopes)}
                total = total + F.mse_loss(torch.func.functional_call(self.net, fast, (c,)).float(), d.float())
            return total / len(x)
    return trains(Net(), torch.randn(2, 6, 1), torch.randn(2, 6, 1), torch.randn(2, 6, 1), torch.randn(2, 6, 1))


def crf():
    class Net(nn.Module):
        def __init__(self, tags=5):
            super().__init__()
            self.embed, self.rnn, self.out = nn.EmbeddingBag(WORDS, 12, mode="mean"), nn.RNN(12, 10, 1, nonlinearity="relu", bidirectional=True), nn.Linear(20, tags)
            self.move, self.first, self.last = nn.Parameter(torch.randn(tags, tags) * .1), nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

        def forward(self, ids, tags, keep):
            n, b = tags.shape
            x = self.embed(ids.view(n * b, -1)).view(n, b, -1)
            e = self.out(self.rnn(x)[0]).float()
            move = self.move.float()
            score = self.first.float()[tags[0]] + e[0, torch.arange(b), tags[0]]
            alpha = self.first.float() + e[0]
            for t in range(1, n):
                score = score + keep[t] * (move[tags[t - 1], tags[t]] + e[t, torch.arange(b), tags[t]])
                alpha = torch.where(keep[t, :, None] > 0, torch.logsumexp(alpha[:, :, None] + move + e[t][:, None], 1), alpha)
            ends = keep.sum(0).long() - 1
            score = score + self.last.float()[tags[ends, torch.arange(b)]]
            return (torch.logsumexp(alpha + self.last.float(), 1) - score).mean()
    keep = torch.ones(7, 3)
    keep[4:, 1] = 0
    return trains(Net(), words(7, 3, 4), torch.randint(0, 5, (7, 3)), keep)


def pinn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.nu = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 1)), nn.Parameter(torch.tensor(.01))

        def forward(self, p, edge, value):
            p = p.detach().requires_grad_(True)
            u = self.net(p)
            du, = torch.autograd.grad(u, p, torch.ones_like(u), create_graph=True)
            ux, ut = du[:, :1], du[:, 1:]
            uxx = torch.autograd.grad(ux, p, torch.ones_like(ux), create_graph=True)[0][:, :1]
            f = ut + u * ux - self.nu * uxx
            return f.float().square().mean() + F.mse_loss(self.net(edge).float(), value.float())
    return trains(Net(), torch.rand(16, 2), torch.rand(8, 2), torch.rand(8, 1))


def vicreg():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 10))

        def forward(self, x, y):
            a, b = self.body(x).float(), self.body(y).float()
            def parts(z):
                z = z - z.mean(0)
                cov = z.t() @ z / (len(z) - 1)
                off = cov.flatten()[:-1].view(9, 11)[:, 1:]
                return F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean(), off.pow(2).sum() / 10
            (va, ca), (vb, cb) = parts(a), parts(b)
            cross = ((a - a.mean(0)) / a.std(0)).t() @ ((b - b.mean(0)) / b.std(0)) / len(a)
            barlow = (torch.diagonal(cross) - 1).square().sum() + .005 * (cross - torch.diag(torch.diagonal(cross))).square().sum()
            n = F.normalize(torch.cat([a, b]), dim=-1)
            sim = (n @ n.t() / .5).fill_diagonal_(float("-inf"))
            own = torch.arange(2 * len(a)).roll(len(a))
            return 25 * F.mse_loss(a, b) + va + vb + ca + cb + barlow + F.cross_entropy(sim, own) + torch.cov(a.t()).trace() * 1e-2
    return trains(Net(), torch.randn(8, 12), torch.randn(8, 12))


def temporal_fusion():
    class Gate(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.a, self.b, self.g, self.n = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 2 * d), nn.LayerNorm(d)

        def forward(self, x):
            return self.n(x + F.glu(self.g(self.b(F.elu(self.a(x)))), -1))

    class Net(nn.Module):
        def __init__(self, d=16):
            super().__init__()
            self.into, self.pick = nn.ModuleList([nn.Linear(1, d) for _ in range(3)]), nn.Linear(3, 3)
            self.gates, self.rnn = nn.ModuleList([Gate(d) for _ in range(2)]), nn.LSTM(d, d, batch_first=True)
            self.attention, self.out = nn.MultiheadAttention(d, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True), nn.Linear(d, 3)

        def forward(self, x, y):
            w = self.pick(x).softmax(-1)
            h = sum(w[..., i:i + 1] * lin(x[..., i:i + 1]) for i, lin in enumerate(self.into))
            h = self.gates[0](self.rnn(h)[0])
            n = h.shape[1]
            mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
            a, shares = self.attention(h, h, h, attn_mask=mask, average_attn_weights=False)
            q = self.out(self.gates[1](h + a)).float()
            apart = y.float()[..., None] - q
            levels = torch.tensor([.1, .5, .9])
            return torch.maximum(levels * apart, (levels - 1) * apart).mean() + 1e-3 * (shares.float() + 1e-9).log().mean()
    return trains(Net(), torch.randn(BATCH, 10, 3), torch.randn(BATCH, 10))


def fourier_operator():
    class Net(nn.Module):
        def __init__(self, d=8):
            super().__init__()
            self.into, self.out, self.skip = nn.Conv2d(3, d, 1), nn.Conv2d(d, 1, 1), nn.Conv2d(d, d, 1)
            self.w = nn.ParameterList([nn.Parameter(torch.randn(d, d, 4, 4, 2) * .05) for _ in range(2)])

        def forward(self, x, y):
            grid = torch.linspace(0, 1, 12)
            place = torch.stack(torch.meshgrid(grid, grid, indexing="ij"))[None].expand(len(x), -1, -1, -1)
            h = self.into(torch.cat([x, place.to(x.dtype)], 1))
            f = torch.fft.rfft2(h.float(), norm="ortho")
            out = torch.zeros_like(f)
            out[:, :, :4, :4] = torch.einsum("bixy,ioxy->boxy", f[:, :, :4, :4], torch.view_as_complex(self.w[0].float()))
            out[:, :, -4:, :4] = torch.einsum("bixy,ioxy->boxy", f[:, :, -4:, :4], torch.view_as_complex(self.w[1].float()))
            h = F.gelu(torch.fft.irfft2(out, s=h.shape[-2:], norm="ortho").to(h.dtype) + self.skip(h))
            u = self.out(h).float()
            return (torch.linalg.vector_norm((u - y.float()).flatten(1), dim=1) / torch.linalg.vector_norm(y.float().flatten(1), dim=1)).mean()
    return trains(Net(), torch.randn(BATCH, 1, 12, 12), torch.randn(BATCH, 1, 12, 12))


def encoder_stack():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = nn.Embedding(WORDS, 32, scale_grad_by_freq=True), nn.Parameter(torch.zeros(LENGTH, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 48, dropout=.1, activation=F.gelu, batch_first=True)
            self.body, self.head = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(32)), nn.Linear(32, WORDS)

        def forward(self, ids, labels):
            x = self.embed(ids) * 32 ** .5 + self.place
            y = self.body(x, src_key_padding_mask=ids == 5)
            return F.cross_entropy(self.head(y).float().transpose(1, 2), labels, ignore_index=-100, label_smoothing=.1)
    ids = words()
    ids[0, :4], ids[1, 10:] = 5, 5
    return trains(Net(), ids, words().masked_fill(torch.rand(BATCH, LENGTH) > .3, -100))


def sparsemax_trees():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.choose, self.at, self.scale, self.leaf = nn.Parameter(torch.rand(10, 4, 3)), nn.Parameter(torch.randn(4, 3) * .1), nn.Parameter(torch.zeros(4, 3)), nn.Parameter(torch.randn(4, 8) * .2)

        def forward(self, x, y):
            s = self.choose.float().movedim(0, -1)
            s = s - s.max(-1, keepdim=True)[0]
            z, _ = s.sort(-1, descending=True)
            rank = torch.arange(1, 11, dtype=z.dtype)
            total = z.cumsum(-1)
            support = (1 + rank * z > total).sum(-1, keepdim=True)
            tau = (total.gather(-1, support - 1) - 1) / support
            share = torch.clamp(s - tau, min=0)
            v = torch.einsum("bf,tdf->btd", x.float(), share)
            gate = ((v - self.at.float()) * torch.exp(-self.scale.float()) * .5 + .5).clamp(0, 1)
            both = torch.stack([gate, 1 - gate], -1)
            leaves = torch.einsum("bti,btj,btk->btijk", *both.unbind(2)).flatten(2)
            out = torch.einsum("btl,tl->b", leaves, self.leaf.float()) / 4
            return F.huber_loss(out, y.float(), delta=.5) + F.hinge_embedding_loss(out, torch.sign(y.float()))
    return trains(Net(), torch.randn(12, 10), torch.randn(12))


def private():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 12), nn.GroupNorm(3, 12), nn.ELU(), nn.Linear(12, 3))

        def forward(self, x, y):
            names = {n: p.detach() for n, p in self.net.named_parameters()}
            def one(p, a, b):
                return F.cross_entropy(torch.func.functional_call(self.net, p, (a[None],)).float(), b[None])
            each = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(names, x, y)
            size = torch.stack([g.float().flatten(1).norm(dim=1) for g in each.values()], 1).norm(dim=1)
            scale = (1 / (size + 1e-6)).clamp(max=1)
            clipped = {n: torch.einsum("b,b...->...", scale.to(g.dtype), g) / len(x) for n, g in each.items()}
            return sum((p.float() * clipped[n].float()).sum() for n, p in self.net.named_parameters())
    return trains(Net(), torch.randn(8, 6), torch.randint(0, 3, (8,)))


def sinkhorn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Sequential(nn.Linear(6, 16), nn.Hardtanh(), nn.Linear(16, 8)), nn.Linear(6, 8)

        def forward(self, x, y):
            a, b = self.a(x).float(), self.b(y).float()
            cost = (a[:, None] - b).square().sum(-1) / 8
            f = torch.zeros(len(a))
            for _ in range(5):
                g = -.1 * torch.logsumexp((f[:, None] - cost) / .1 - math.log(len(a)), 0)
                f = -.1 * torch.logsumexp((g[None] - cost) / .1 - math.log(len(b)), 1)
            plan = torch.exp((f[:, None] + g - cost) / .1 - math.log(len(a) * len(b)))
            k = torch.exp(-torch.cdist(a, a).square() / 2)
            eig = torch.linalg.eigvalsh(k + 1e-3 * torch.eye(len(a)))
            gauss = torch.distributions.MultivariateNormal(torch.zeros(8), covariance_matrix=torch.cov(b.t()) + .1 * torch.eye(8))
            return (plan * cost).sum() - .01 * torch.logdet(k + .1 * torch.eye(len(a))) + 1e-2 * eig.max() - .01 * gauss.log_prob(a).mean()
    return trains(Net(), torch.randn(8, 6), torch.randn(7, 6))


def sound_masking():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc, self.dec = nn.Conv1d(1, 16, 8, 4, bias=False), nn.ConvTranspose1d(16, 1, 8, 4, bias=False)
            self.norm, self.rnn, self.mask = nn.GroupNorm(1, 16), nn.GRU(16, 12, batch_first=True, bidirectional=True), nn.Linear(24, 32)

        def forward(self, mix, parts):
            x = F.relu(self.enc(mix))
            h = self.rnn(self.norm(x).transpose(1, 2))[0]
            m = torch.sigmoid(self.mask(h)).transpose(1, 2).unflatten(1, (2, 16))
            y = self.dec((x[:, None] * m).flatten(0, 1)).view(len(mix), 2, -1).float()
            def snr(a, b):
                a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
                p = (a * b).sum(-1, keepdim=True) * b / (b.square().sum(-1, keepdim=True) + 1e-8)
                return 10 * torch.log10(p.square().sum(-1) / ((a - p).square().sum(-1) + 1e-8) + 1e-8)
            s = parts.float()
            orders = torch.stack([snr(y, s).mean(-1), snr(y, s.flip(1)).mean(-1)], 1)
            window = torch.hamming_window(32)
            spec = torch.stft(y.flatten(0, 1), 32, 8, 32, window, return_complex=True).abs()
            back = torch.istft(torch.stft(s[:, 0], 32, 8, 32, window, return_complex=True), 32, 8, 32, window)
            return -orders.max(1)[0].mean() + spec.pow(.3).mean() + 0 * back.sum()
    return trains(Net(), torch.randn(BATCH, 1, 128), torch.randn(BATCH, 2, 128))


def of_torchvision(family, name, shape, **over):
    def make():
        models = package("torchvision").models
        kind = getattr(getattr(models, family) if family else models, name)
        model = kind(num_classes=10, **over)
        def loss(model, inputs):
            y = model(*inputs)
            return classes(model, inputs) if not isinstance(y, dict) else F.cross_entropy(y["out"].float(), torch.zeros(BATCH, *shape[1:], dtype=torch.long))
        return Example(model, (torch.randn(BATCH, *shape),), images=len(shape) == 3, loss=loss)
    return make


FIFTH_BY_HAND = dict(seq2seq=seq2seq, gcn=gcn, edm=edm, vqvae=vqvae, gaussian_vae=gaussian_vae, detection_head=detection_head, ctc=ctc, capacity_moe=capacity_moe,
                     s4d=s4d, selective_scan=selective_scan, ppo=ppo, sac=sac, rainbow=rainbow, glow=glow, spline_flow=spline_flow, hash_grid=hash_grid,
                     splatting=splatting, arcface=arcface, recommender=recommender, convlstm=convlstm, capsules=capsules, neural_ode=neural_ode,
                     transformer_xl=transformer_xl, tacotron=tacotron, quantized_training=quantized_training, stylegan=stylegan, maml=maml, crf=crf, pinn=pinn,
                     vicreg=vicreg, temporal_fusion=temporal_fusion, fourier_operator=fourier_operator, encoder_stack=encoder_stack,
                     sparsemax_trees=sparsemax_trees, private=private, sinkhorn=sinkhorn, sound_masking=sound_masking,
                     **{n: detector(n) for n in ("mask-rcnn", "retinanet", "fcos")},
                     squeezenet=of_torchvision("", "squeezenet1_1", (3, 64, 64)), shufflenet=of_torchvision("", "shufflenet_v2_x0_5", (3, 64, 64)),
                     lraspp=of_torchvision("segmentation", "lraspp_mobilenet_v3_large", (3, 64, 64), weights_backbone=None),
                     swin3d=of_torchvision("video", "SwinTransformer3d", (3, 4, 32, 32), patch_size=[2, 4, 4], embed_dim=16, depths=[2, 1], num_heads=[2, 4],
                                           window_size=[2, 4, 4]))

BY_HAND = dict(gnn=gnn, hifigan=hifigan, unet=unet, dit=dit, graphormer=graphormer, grpo=grpo, dlrm=dlrm, lstm=lstm, moe=moe, vae=vae,
               speaker=speaker, transformer=transformer, contrastive=contrastive, deform=deform, raft=raft)
SECOND_BY_HAND = dict(dpo=dpo, wavenet=wavenet, nerf=nerf, flow=flow, pointnet=pointnet, spectral_mixer=spectral_mixer, distilled=distilled, kan=kan,
                      double_precision=double_precision, deepset_ema=deepset_ema)

FIRST = {**BY_HAND, **{n: of_transformers(n) for n in TRANSFORMERS}, **{"timm-" + n: of_timm(n) for n in TIMM}}
FRESH = {**SECOND_BY_HAND, **{n: of_transformers(n) for n in SECOND}, **{"timm-" + n: of_timm(n) for n in SECOND_TIMM}}
UNSEEN = {**{n: of_transformers(n) for n in THIRD}, **{"timm-" + n: of_timm(n) for n in THIRD_TIMM}}
LATEST = {**{n: of_transformers(n) for n in FOURTH}, **{"timm-" + n: of_timm(n) for n in FOURTH_TIMM}}
FIVE = {**FIFTH_BY_HAND, **{n: of_transformers(n) for n in FIFTH}, **{"timm-" + n: of_timm(n) for n in FIFTH_TIMM}}
SIX = {**{n: of_transformers(n) for n in SIXTH}, **{"timm-" + n: of_timm(n) for n in SIXTH_TIMM},
       "mnasnet": of_torchvision("", "mnasnet0_5", (3, 64, 64)), "mc3": of_torchvision("video", "mc3_18", (3, 4, 32, 32))}
SETS = (FIRST, FRESH, UNSEEN, LATEST, FIVE, SIX)

# Which have pictures (channels_last), attention masks (padding), and blocks whose layers can be split over ranks.
IMAGES = {"unet", "dit", "vae", "deform", "raft", "double_precision", "edm", "vqvae", "rainbow", "arcface", "capsules", "detection_head", "quantized_training", *("timm-" + n for n in PICTURES),
          *(n for n, v in ARCHITECTURES.items() if v[1] in (image, labelled))}
TEXT = {n for n, v in ARCHITECTURES.items() if v[1] in (causal, text, sequences)}
LANGUAGE = {*ARCHITECTURES}
BLOCKS = {"speaker", "grpo", "dit", "dpo"}

QUICK = {"speaker", "dlrm", "unet", "lstm", "llama", "gpt2", "timm-vit", "dpo", "kan"}  # to compile
