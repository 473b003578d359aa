// Package deeplink declares the operators of DeepLinkExt beside attention: norms, rotary
// embedding, masked softmax, AdamW, padding, and the functions of its module of C++, which
// write to tensors that are given. They compute in at least float32.
//
// Source: DeepLinkExt, deeplink_ext/*_ops, deeplink_ext/ascend_speed and csrc/extensions.cpp.
package deeplink

import (
	"strings"

	"github.com/optool/optool/opdef"
)

// Table lists the operators of the package.
func Table() []*opdef.Entry {
	return []*opdef.Entry{rmsNorm, mixedRMSNorm, manualRMSNorm, extRMSNorm, extRMSNormBackward, rotary, rotaryQKV,
		rotaryRows, rotaryRowsTorch, extRotary, maskedSoftmax, extMaskedSoftmax, extMaskedSoftmaxBackward, adamw,
		fusedAdamW, extAdamW,
		indexFirst, indexFirstResidual, indexPut, padInput, unpadInput, unpadConcatenated}
}

// names are those of functions of deeplink_ext.
func names(of ...string) string { return "deeplink_ext." + strings.Join(of, " deeplink_ext.") }

// ext is the name of a function of the module of C++.
func ext(name string) string { return names("cpp_extensions." + name) }
