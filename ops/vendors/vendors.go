// Package vendors has the operators of libraries beside torch: torch_npu, dlinfer, DeepLinkExt, apex,
// Megatron-LM, Transformer Engine, FSDP2, vLLM, SGLang, FlashInfer, flash-attn and lightllm. Each file
// *.star declares those of one or more in the language of package custom, which users write theirs in.
// A file is read when a name of one of its namespaces is first met.
package vendors

import (
	"embed"
	"strings"

	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opdef"
)

//go:embed *.star
var files embed.FS

// namespaces are those of the names that a file declares: see opdef.Family. Where two files share one, the operators
// of the first stand before those of the second.
var namespaces = []struct {
	file  string
	first []string
}{
	{"torch_npu.star", []string{"torch_npu", "npu"}},
	{"dlinfer.star", []string{"dlinfer"}},
	{"deeplink_ext.star", []string{"deeplink_ext", "flash_attn"}},
	{"flash_attn.star", []string{"flash_attn", "deeplink_ext", "diopi"}},
	{"lightllm.star", []string{"lightllm", "deeplink_ext", "diopi"}},
	{"flashinfer.star", []string{"flashinfer"}},
	{"megatron.star", []string{"apex", "megatron", "transformer_engine", "transformer_engine_torch", "fsdp", "te_softmax",
		"fused_layer_norm_cuda", "fused_rotary_positional_embedding", "xentropy_cuda", "scaled_softmax_cuda",
		"scaled_masked_softmax_cuda", "generic_scaled_masked_softmax_cuda", "scaled_upper_triang_masked_softmax_cuda",
		"scaled_aligned_causal_masked_softmax_cuda"}},
	{"vllm.star", []string{"_C", "_moe_C", "_C_cache_ops", "vllm", "sgl_kernel"}},
}

// Families are the operators of the files.
func Families() []*opdef.Family {
	var out []*opdef.Family
	for _, n := range namespaces {
		out = append(out, opdef.NewFamily(n.first, func() []*opdef.Entry { return read(n.file) }))
	}
	return out
}

// folder is where the files are in optool's sources: the beginning of the places of operators.
const folder = "ops/vendors/"

// read gives the operators of an embedded file.
func read(file string) []*opdef.Entry {
	src, err := files.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return custom.Embedded(folder+file, src)
}

// Source is the text of the file at the place of an operator; there is none if that is a file of the user's.
func Source(path string) (src []byte, ok bool) {
	name, ok := strings.CutPrefix(path, folder)
	if !ok {
		return nil, false
	}
	src, err := files.ReadFile(name)
	return src, err == nil
}
