package vision

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// atenOps are functions of the torch namespace that say with numbers what those
// of torch.nn.functional, which call them, say with words.
func atenOps() []*opdef.Entry {
	return []*opdef.Entry{
		opdef.Overload[affineGridArgs, atenAffineGridArgs]{
			Schema: "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
			Of:     elements.MustFind(gridOps, "affine_grid"), Names: "affine_grid_generator",
			To: func(b *atenAffineGridArgs) (*affineGridArgs, error) {
				return &affineGridArgs{b.Theta, b.Size, &b.AlignCorners}, nil
			},
			From: func(a *affineGridArgs) *atenAffineGridArgs {
				return &atenAffineGridArgs{a.Theta, a.Size, a.AlignCorners != nil && *a.AlignCorners}
			},
		}.Entry(),
		gridSampler("grid_sampler", 0), gridSampler("grid_sampler_2d", 4), gridSampler("grid_sampler_3d", 5),
	}
}

// gridSampler is grid_sample of images of so many dimensions, 0 for any, with
// numbers for the modes.
func gridSampler(name string, dims int) *opdef.Entry {
	modes, paddings := []string{"bilinear", "nearest", "bicubic"}, []string{"zeros", "border", "reflection"}
	return opdef.Overload[gridSampleArgs, atenGridArgs]{
		Schema: name +
			"(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
		Names: name, Of: elements.MustFind(gridOps, "grid_sample"),
		To: func(b *atenGridArgs) (*gridSampleArgs, error) {
			switch {
			case b.InterpolationMode < 0 || b.InterpolationMode >= len(modes):
				return nil, opdef.Refuse("interpolation_mode", "want 0, 1 or 2, got %d", b.InterpolationMode)
			case b.PaddingMode < 0 || b.PaddingMode >= len(paddings):
				return nil, opdef.Refuse("padding_mode", "want 0, 1 or 2, got %d", b.PaddingMode)
			case dims != 0 && b.Input.Dim() != dims:
				return nil, opdef.Refuse("input", "want %d dimensions, got shape %s", dims,
					tensor.ShapeString(b.Input.Shape))
			}
			return &gridSampleArgs{Input: b.Input, Grid: b.Grid, Mode: modes[b.InterpolationMode],
				PaddingMode: paddings[b.PaddingMode], AlignCorners: &b.AlignCorners}, nil
		},
		From: func(a *gridSampleArgs) *atenGridArgs {
			if dims != 0 && a.Input.Dim() != dims {
				return nil
			}
			return &atenGridArgs{a.Input, a.Grid, slices.Index(modes, a.Mode), slices.Index(paddings, a.PaddingMode),
				a.AlignCorners != nil && *a.AlignCorners}
		},
	}.Entry()
}

type atenAffineGridArgs struct {
	Theta        *tensor.Tensor
	Size         []int
	AlignCorners bool
}

type atenGridArgs struct {
	Input, Grid                    *tensor.Tensor
	InterpolationMode, PaddingMode int
	AlignCorners                   bool
}
