// Package megatron declares the fused functions of training stacks on NVIDIA's devices: apex,
// Megatron-LM and Transformer Engine. They have norms, softmax, rotary embedding, gates with
// biases and cross entropy in common, under names of their own. Kernels compute in float32.
// Beside them what FSDP2 copies with.
//
// Source: apex (apex/normalization, apex/contrib/xentropy, apex/transformer/functional, csrc/megatron),
// Megatron-LM (megatron/core/fusions, megatron/core/tensor_parallel), Transformer Engine
// (transformer_engine/pytorch/attention, cross_entropy.py).
package megatron

import (
	"slices"

	"github.com/optool/optool/opdef"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry {
	return slices.Concat(norms(), softmaxes(), gates(), ropes(), fsdps(), []*opdef.Entry{parallelCrossEntropy,
		fusedCrossEntropy, tokenCrossEntropy, apexCrossEntropy, rawCrossEntropy})
}
