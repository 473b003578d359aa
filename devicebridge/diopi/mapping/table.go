package mapping

// table says how DIOPI runs operators, by name with the overload (opdef.Entry.Op). An
// operator that is not listed takes the recipe of its own name, self filling
// input; one that has none cannot run.
//
// A line is the recipe, then what fills its keywords where that is not the argument
// of the same name:
//
//	other=self             an argument
//	indices1=indices.0     an item of a list argument
//	rounding_mode='floor'  a Python literal
//	out=@out               memory of the dtype and shape of the result
//	size=@shape            the shape of the result
//	sizes=@parts           the sizes of the results along the argument dim
//	-copy                  the argument copy does not matter on a device
//	!align_corners         the flag may be False as well as absent
//
// Arguments that nothing takes must have their default in a call, else the call is
// refused. "none" says that the recipe of the operator's name means another overload.
var table = map[string]string{
	// arithmetic
	"rsub":          "sub input=other other=self",
	"__rtruediv__":  "div input=other other=self",
	"floor_divide":  "div rounding_mode='floor'",
	"__rfloordiv__": "div input=other other=self rounding_mode='floor'",
	"__rmod__":      "remainder input=other other=self",
	"__rpow__":      "pow input=other exponent=self",
	"square":        "pow exponent=2",
	"__rand__":      "bitwise_and input=other other=self",
	"__ror__":       "bitwise_or input=other other=self",

	// activations
	"relu6": "hardtanh min_val=0 max_val=6",

	// conversion and copies
	"to.dtype":   "cast_dtype out=@out -dtype -non_blocking -copy",
	"to.other":   "cast_dtype out=@out -other -non_blocking -copy",
	"to.device":  "cast_dtype out=@out -device -dtype -non_blocking -copy",
	"type":       "cast_dtype out=@out -dtype -non_blocking",
	"type_as":    "cast_dtype out=@out -other",
	"float":      "cast_dtype out=@out",
	"double":     "cast_dtype out=@out",
	"half":       "cast_dtype out=@out",
	"bfloat16":   "cast_dtype out=@out",
	"int":        "cast_dtype out=@out",
	"long":       "cast_dtype out=@out",
	"short":      "cast_dtype out=@out",
	"char":       "cast_dtype out=@out",
	"byte":       "cast_dtype out=@out",
	"bool":       "cast_dtype out=@out",
	"cfloat":     "cast_dtype out=@out",
	"cdouble":    "cast_dtype out=@out",
	"chalf":      "cast_dtype out=@out",
	"contiguous": "copy_ input=@out other=self",
	"clone":      "copy_ input=@out other=self",
	"copy_":      "copy_ other=src -non_blocking",

	// creation
	"zeros_like": "zeros size=@shape -self",
	"ones_like":  "ones size=@shape -self",
	"new_zeros":  "zeros -self",
	"new_ones":   "ones -self",
	"full":       "fill_ input=@out value=fill_value -size -dtype",
	"full_like":  "fill_ input=@out value=fill_value -self -dtype",
	"new_full":   "fill_ input=@out value=fill_value -self -size -dtype",
	"fill":       "fill_ input=@out -self",

	// random numbers
	"uniform_":       "uniform start=from end=to",
	"random_":        "random",
	"random_.from":   "random start=from end=to",
	"random_.to":     "random end=to",
	"bernoulli_":     "bernoulli",
	"dropout.native": "dropout training=train",

	// shapes
	"broadcast_to":     "expand",
	"expand_as":        "expand size=@shape -other",
	"swapaxes":         "transpose dim0=axis0 dim1=axis1",
	"t":                "transpose dim0=0 dim1=-1",
	"mT":               "transpose dim0=-2 dim1=-1",
	"split.Tensor":     "split tensor=self split_size_or_sections=@parts -split_size",
	"split.sections":   "split tensor=self",
	"split_with_sizes": "split tensor=self split_size_or_sections=split_sizes",
	"chunk":            "split tensor=self split_size_or_sections=@parts -chunks",
	"constant_pad_nd":  "pad",

	// indices
	"__getitem__":    "getitem",
	"__setitem__":    "setitem",
	"index_put":      "index_put indices1=indices.0 indices2=indices.1 indices3=indices.2",
	"argwhere":       "nonzero",
	"scatter_add":    "scatter reduce='add'",
	"embedding.rows": "embedding input=indices padding_idx=None", // -1 is none, not the last row
	"one_hot":        "one_hot input=tensor",

	// reductions and norms
	"std":                  "std correction=unbiased",
	"std.dim":              "std correction=unbiased",
	"linalg_vector_norm":   "vector_norm input=x",
	"layer_norm":           "layer_norm -cudnn_enable",
	"group_norm":           "group_norm -cudnn_enabled",
	"instance_norm.native": "none",
	"index":                "none",

	// matrices
	"__rmatmul__": "matmul input=other other=self",
	"mv":          "matmul other=vec",
	"dot":         "matmul other=tensor",
	"cholesky":    "cholesky_ex input=A",
	"cholesky_ex": "cholesky_ex input=A",
	"linalg_qr":   "linalgqr input=A",

	// pools and images
	"max_pool1d_with_indices":          "max_pool1d return_indices=True -return_indices",
	"max_pool2d_with_indices":          "max_pool2d return_indices=True -return_indices",
	"max_pool3d_with_indices":          "max_pool3d return_indices=True -return_indices",
	"adaptive_max_pool1d_with_indices": "adaptive_max_pool1d return_indices=True -return_indices",
	"adaptive_max_pool2d_with_indices": "adaptive_max_pool2d return_indices=True -return_indices",
	"adaptive_max_pool3d_with_indices": "adaptive_max_pool3d return_indices=True -return_indices",
	"interpolate":                      "interpolate keep_scale=True !recompute_scale_factor",
	"upsample":                         "interpolate keep_scale=True",
	"upsample_nearest":                 "interpolate keep_scale=True",
	"upsample_bilinear":                "interpolate keep_scale=True mode='bilinear' align_corners=True",
	"grid_sample":                      "grid_sample !align_corners",

	// losses: aten's overloads have a number for the reduction
	"binary_cross_entropy_with_logits.int":  "none",
	"ctc_loss.int":                          "none",
	"binary_cross_entropy_with_logits.aten": "none",
	"ctc_loss.aten":                         "none",
	"mse_loss.int":                          "none",
	"mse_loss.aten":                         "none",
	"smooth_l1_loss.int":                    "none",
	"smooth_l1_loss.aten":                   "none",
	"binary_cross_entropy.int":              "none",
	"binary_cross_entropy.aten":             "none",

	// attention and boxes
	"flash_attn_func": "flash_attention p_dropout=dropout_p is_causal=causal window_size_left=-1 " +
		"window_size_right=-1 -deterministic",
	"roi_align.list": "none",

	// optimizers
	"_fused_adamw_": "fused_adamw params=self",
}
