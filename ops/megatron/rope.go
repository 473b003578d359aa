package megatron

import (
	"slices"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// A turn is how elements of heads are turned by angles.
type turn struct {
	interleaved bool
	// steps: angles' cosines and sines, and every product, are rounded to the dtype of what is
	// turned, as the forms in torch do.
	steps bool
	scale float64 // of cosines and sines
}

// mode is that of fused.Turned.
func (t turn) mode() string {
	if t.interleaved {
		return "interleave"
	}
	return "half"
}

// by is x with the first elements of its last dimension turned by the angles of which cos and
// sin are given, one for each element, broadcast.
func (t turn) by(g *compose.Graph, name string, x, cos, sin *compose.Value) *compose.Value {
	if x.Dim() == 0 || !x.DType().IsFloat() {
		g.Refuse(name, "want floating heads, got %s", x.T.Meta())
	}
	dt, shape := x.DType(), x.Shape()
	if t.scale != 1 {
		cos, sin = g.Scale(cos, t.scale), g.Scale(sin, t.scale)
	}
	if t.steps {
		cos, sin = g.To(cos, dt), g.To(sin, dt)
	} else {
		x, cos, sin = g.AtLeast(x, tensor.Float32), g.AtLeast(cos, tensor.Float32), g.AtLeast(sin, tensor.Float32)
	}
	y := g.To(fused.RotatePart(g, name, x, cos, sin, t.mode()), dt)
	if !slices.Equal(y.Shape(), shape) {
		g.Refuse("freqs", "%s is not broadcast to %s", cos.T.Meta(), x.T.Meta())
	}
	return y
}

// byAngles is by of the cosines and sines of angles.
func (t turn) byAngles(g *compose.Graph, name string, x, angles *compose.Value) *compose.Value {
	if !angles.DType().IsFloat() {
		g.Refuse("freqs", "want angles, got %s", angles.T.Meta())
	}
	angles = g.AtLeast(g.Detach(angles), tensor.Float32)
	return t.by(g, name, x, g.Cos(angles), g.Sin(angles))
}

// rowsOf are rows of angles [positions, ..., size], as [rows, more..., size].
func rowsOf(g *compose.Graph, angles *compose.Value, rows []int, more ...int) *compose.Value {
	n := angles.Dim() - 1
	if n < 1 || angles.T.Numel() != angles.Shape()[0]*angles.Shape()[n] {
		g.Refuse("freqs", "want one row of angles for each position, got %s", angles.T.Meta())
	}
	for _, r := range rows {
		if r < 0 || r >= angles.Shape()[0] {
			g.Refuse("freqs", "position %d is not among %d", r, angles.Shape()[0])
		}
	}
	flat := g.Reshape(angles, angles.Shape()[0], angles.Shape()[n])
	return g.Reshape(g.IndexSelect(flat, 0, rows), append(append([]int{len(rows)}, more...), angles.Shape()[n])...)
}

// within are the positions of rows in sequences that begin and end at ends, from first of each.
func within(g *compose.Graph, ends *tensor.Tensor, rows int, first func(sequence int) int) []int {
	at := fused.Ints(g, "cu_seqlens", ends)
	if len(at) < 2 || at[0] != 0 || !slices.IsSorted(at) || at[len(at)-1] != rows {
		g.Refuse("cu_seqlens", "want ends of sequences from 0 to %d, got %s", rows, ends.Meta())
	}
	out := tensor.Make[int](rows)
	for i := range len(at) - 1 {
		for j := at[i]; j < at[i+1]; j++ {
			out[j] = first(i) + j - at[i]
		}
	}
	return out
}

func fromZero(int) int { return 0 }

const (
	apexRope    = "apex.transformer.functional."
	ropeFormula = "t*cos(freqs) + turned(t)*sin(freqs) of the first elements of heads, as many as there are angles"
	halfNotes   = " turned is (-b, a) of the halves (a, b) of these."
)

type (
	ropeArgs struct {
		T, Freqs              *tensor.Tensor
		TransposeOutputMemory bool
	}
	cachedArgs struct {
		T, Cos, Sin           *tensor.Tensor
		TransposeOutputMemory bool
	}
	packedArgs struct{ T, CuSeqlens, Freqs *tensor.Tensor }
	planeArgs  struct {
		T                      *tensor.Tensor
		ImgH, ImgW             int
		CosH, SinH, CosW, SinW *tensor.Tensor
	}
	stepsArgs struct {
		T, Freqs                                *tensor.Tensor
		RotaryInterleaved, MlaRotaryInterleaved bool
		Mscale                                  float64
		Inverse, MlaOutputRemoveInterleaving    bool
		MultiLatentAttention                    *bool
	}
	engineRopeArgs struct {
		T, Freqs       *tensor.Tensor
		TensorFormat   string
		StartPositions *tensor.Tensor
		Interleaved    bool
		Fused          bool
		CuSeqlens      *tensor.Tensor
		CpSize, CpRank int
	}
	engineFuncArgs struct {
		T, Freqs, StartPositions *tensor.Tensor
		TensorFormat             string
		Interleaved              bool
		CuSeqlens                *tensor.Tensor
		CpSize, CpRank           int
	}
)

// apexNames are those of a function of apex, of its class and of its kernel.
func apexNames(function, class, kernel string) string {
	return strings.Join([]string{apexRope + function, apexRope + "fused_rope." + function, apexRope + "fused_rope." +
		class + ".apply", "fused_rotary_positional_embedding." + kernel}, " ")
}

// angles are those of cases, without gradient.
func angles(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor {
	return elements.Detached(g.Uniform(dt, -2, 2, shape...))
}

// sequences end at 3 and 5.
func sequences() *tensor.Tensor { return fused.Integers(0, 3, 5) }

// ropes are those of apex, of Megatron-LM and of Transformer Engine.
func ropes() []*opdef.Entry { return slices.Concat(apexRopes(), megatronRopes(), engineRopes()) }

func ropeDoc(summary, notes, source string) opdef.Doc {
	return opdef.Doc{Summary: summary, Formula: ropeFormula, Notes: notes, Source: source}
}

func apexRopes() []*opdef.Entry {
	whole, f32 := turn{scale: 1}, tensor.Float32
	const apexSource = "apex.transformer.functional.fused_rope"
	return []*opdef.Entry{
		compose.Declare(compose.Op[ropeArgs]{
			Schema: "apex_fused_apply_rotary_pos_emb(Tensor t, Tensor freqs, bool transpose_output_memory=False) -> " +
				"Tensor",
			Names: apexNames("fused_apply_rotary_pos_emb", "FusedRoPEFunc", "forward"),
			Doc: ropeDoc("Rotary position embedding", "t is (positions, batch, heads, size), freqs (positions, 1, 1, "+
				"angles)."+halfNotes, apexSource),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *ropeArgs {
				return &ropeArgs{g.Normal(dt, 3, 2, 2, 6), angles(g, f32, 3, 1, 1, 4), false}
			}),
		}, compose.Fused, func(g *compose.Graph, a *ropeArgs) compose.Values {
			return compose.Values{whole.byAngles(g, "t", g.Arg("t", a.T), g.Arg("freqs", a.Freqs))}
		}),
		compose.Declare(compose.Op[cachedArgs]{
			Schema: "apex_fused_apply_rotary_pos_emb_cached(Tensor t, Tensor cos, Tensor sin, " +
				"bool transpose_output_memory=False) -> Tensor",
			Names: apexNames("fused_apply_rotary_pos_emb_cached", "FusedRoPECachedFunc", "forward_cached"),
			Doc: opdef.Doc{Summary: "Rotary position embedding with angles that are given by cosines and sines",
				Formula: "t*cos + turned(t)*sin of the first elements of heads, as many as cos has",
				Notes:   "t is (positions, batch, heads, size), cos and sin are (positions, 1, 1, angles)." + halfNotes,
				Source:  apexSource},
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *cachedArgs {
				return &cachedArgs{g.Normal(dt, 3, 2, 2, 6), angles(g, dt, 3, 1, 1, 4), angles(g, dt, 3, 1, 1,
					4), false}
			}),
		}, compose.Fused, func(g *compose.Graph, a *cachedArgs) compose.Values {
			return compose.Values{whole.by(g, "t", g.Arg("t", a.T), g.Detach(g.Arg("cos", a.Cos)),
				g.Detach(g.Arg("sin", a.Sin)))}
		}),
		compose.Declare(compose.Op[packedArgs]{
			Schema: "apex_fused_apply_rotary_pos_emb_thd(Tensor t, Tensor cu_seqlens, Tensor freqs) -> Tensor",
			Names:  apexNames("fused_apply_rotary_pos_emb_thd", "FusedRoPETHDFunc", "forward_thd"),
			Doc: ropeDoc("Rotary position embedding of packed sequences", "t is (rows, heads, size), freqs (positions, "+
				"1, 1, angles); sequence i has the rows from cu_seqlens[i] to cu_seqlens[i+1]."+halfNotes, apexSource),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *packedArgs {
				return &packedArgs{g.Normal(dt, 5, 2, 6), sequences(), angles(g, f32, 4, 1, 1, 4)}
			}),
		}, compose.Fused, func(g *compose.Graph, a *packedArgs) compose.Values {
			return compose.Values{whole.packed(g, a.T, a.Freqs, a.CuSeqlens, fromZero)}
		}),
		compose.Declare(compose.Op[planeArgs]{
			Schema: "apex_fused_apply_rotary_pos_emb_2d(Tensor t, int img_h, int img_w, Tensor cos_h, Tensor sin_h, " +
				"Tensor cos_w, Tensor sin_w) -> Tensor",
			Names: apexNames("fused_apply_rotary_pos_emb_2d", "FusedRoPE2DFunc", "forward_2d"),
			Doc: opdef.Doc{Summary: "Rotary position embedding of images",
				Formula: "t*cos + turned(t)*sin, the first half of heads by the angles of the row, the second of the " +
					"column",
				Notes: "t is (batch, img_h*img_w, heads, size), cos_h is (1, rows, 1, size/2), cos_w (1, columns, 1, " +
					"size/2)." + halfNotes, Source: apexSource},
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *planeArgs {
				h, w := func() *tensor.Tensor { return angles(g, dt, 1, 3, 1, 4) },
					func() *tensor.Tensor { return angles(g, dt, 1, 4, 1, 4) }
				return &planeArgs{g.Normal(dt, 2, 6, 2, 8), 2, 3, h(), h(), w(), w()}
			}),
		}, compose.Fused, func(g *compose.Graph, a *planeArgs) compose.Values {
			return compose.Values{plane(g, a)}
		}),
	}
}

func megatronRopes() []*opdef.Entry {
	return []*opdef.Entry{
		compose.Declare(compose.Op[stepsArgs]{
			Schema: "megatron_apply_rotary_pos_emb_bshd(Tensor t, Tensor freqs, bool rotary_interleaved=False, " +
				"bool mla_rotary_interleaved=False, float mscale=1.0, bool inverse=False, " +
				"bool mla_output_remove_interleaving=False, bool? multi_latent_attention=None) -> Tensor",
			Names: "megatron.core.models.common.embeddings.rope_utils._apply_rotary_pos_emb_bshd",
			Doc: ropeDoc("Rotary position embedding", "t is (positions, ..., size), freqs is broadcast. cos and sin "+
				"are multiplied by mscale; inverse turns back. Neighbours are turned if rotary_interleaved. With "+
				"mla_rotary_interleaved (or multi_latent_attention) elements are first sorted, the even ones before "+
				"the odd, and with mla_output_remove_interleaving sorted back. Steps are rounded.",
				"megatron.core.models.common.embeddings.rope_utils"),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *stepsArgs {
				return &stepsArgs{g.Normal(dt, 3, 2, 2, 6), angles(g, tensor.Float32, 3, 1, 1, 4), g.Nth%2 == 1,
					g.Nth > 1, 0.5, g.Nth == 3, g.Nth == 3, nil}
			}),
		}, compose.Unfused, func(g *compose.Graph, a *stepsArgs) compose.Values {
			return compose.Values{steps(g, a)}
		}),
	}
}

// steps is a turn in torch's own steps, of elements that may be sorted before and after.
func steps(g *compose.Graph, a *stepsArgs) *compose.Value {
	t := turn{a.RotaryInterleaved, true, a.Mscale}
	x, freqs := g.Arg("t", a.T), g.Arg("freqs", a.Freqs)
	mla := a.MlaRotaryInterleaved
	if a.MultiLatentAttention != nil {
		mla = *a.MultiLatentAttention
	}
	last := x.Dim() - 1
	if last < 0 || freqs.Dim() == 0 || freqs.Shape()[freqs.Dim()-1] > x.Shape()[last] ||
		freqs.Shape()[freqs.Dim()-1]%2 != 0 {
		g.Refuse("freqs", "%s does not fit heads of %s", a.Freqs.Meta(), a.T.Meta())
	}
	n, size := freqs.Shape()[freqs.Dim()-1], x.Shape()[last]
	y, rest := g.Narrow(x, -1, 0, n), g.Narrow(x, -1, n, size-n)
	order, back := pairOrder(n)
	if mla {
		y = g.IndexSelect(y, -1, order)
	}
	if a.Inverse {
		freqs = g.Neg(freqs)
	}
	y = t.byAngles(g, "t", y, freqs)
	if mla && a.MlaOutputRemoveInterleaving {
		y = g.IndexSelect(y, -1, back)
	}
	return g.Cat(-1, y, rest)
}

func engineRopes() []*opdef.Entry {
	f32 := tensor.Float32
	return []*opdef.Entry{
		compose.Declare(compose.Op[engineRopeArgs]{
			Schema: "transformer_engine_apply_rotary_pos_emb(Tensor t, Tensor freqs, str tensor_format='sbhd', " +
				"Tensor? start_positions=None, bool interleaved=False, bool fused=False, Tensor? cu_seqlens=None, " +
				"int cp_size=1, int cp_rank=0) -> Tensor",
			Names: "transformer_engine.pytorch.attention.apply_rotary_pos_emb " +
				"transformer_engine.pytorch.attention.rope.apply_rotary_pos_emb",
			Doc: ropeDoc("Rotary position embedding", engineNotes+" Without fused steps are rounded.",
				"transformer_engine.pytorch.attention.rope"),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *engineRopeArgs {
				a := &engineRopeArgs{T: g.Normal(dt, 3, 2, 2, 6), Freqs: angles(g, f32, 5, 1, 1, 4),
					TensorFormat: "sbhd",
					Interleaved:  g.Nth%2 == 1, Fused: g.Nth > 1, CpSize: 1}
				switch g.Nth {
				case 1:
					a.T, a.TensorFormat, a.StartPositions = g.Normal(dt, 2, 3, 2, 6), "bshd", fused.Integers(2, 0)
				case 2:
					a.T, a.TensorFormat, a.CuSeqlens = g.Normal(dt, 5, 2, 6), "thd", sequences()
				}
				return a
			}),
		}, compose.Fused, func(g *compose.Graph, a *engineRopeArgs) compose.Values {
			return compose.Values{engineRope(g, a)}
		}),
		compose.Declare(compose.Op[engineFuncArgs]{
			Schema: "transformer_engine_fused_rope(Tensor t, Tensor freqs, Tensor? start_positions=None, " +
				"str tensor_format='sbhd', bool interleaved=False, Tensor? cu_seqlens=None, int cp_size=1, " +
				"int cp_rank=0) -> Tensor",
			Names: "transformer_engine.pytorch.attention.rope.FusedRoPEFunc.apply",
			Doc:   ropeDoc("Rotary position embedding", engineNotes, "transformer_engine.pytorch.attention.rope"),
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *engineFuncArgs {
				return &engineFuncArgs{T: g.Normal(dt, 3, 2, 2, 6), Freqs: angles(g, f32, 5, 1, 1, 4),
					StartPositions: fused.Integers(2, 0), TensorFormat: "sbhd", CpSize: 1}
			}),
		}, compose.Fused, func(g *compose.Graph, a *engineFuncArgs) compose.Values {
			return compose.Values{engineRope(g, &engineRopeArgs{a.T, a.Freqs, a.TensorFormat, a.StartPositions,
				a.Interleaved, true, a.CuSeqlens, a.CpSize, a.CpRank})}
		}),
	}
}

// packed is t [rows, heads, size], turned by the angles of positions in sequences.
func (t turn) packed(g *compose.Graph, x, freqs, ends *tensor.Tensor, first func(sequence int) int) *compose.Value {
	v := g.Arg("t", x)
	fused.CheckRank(g, "t", v, 3)
	rows := within(g, ends, v.Shape()[0], first)
	return t.byAngles(g, "t", v, rowsOf(g, g.Arg("freqs", freqs), rows, 1))
}

// pairOrder is the order of n elements that puts the even ones before the odd ones, and the
// order that undoes it.
func pairOrder(n int) (order, back []int) {
	order, back = tensor.Make[int](n), tensor.Make[int](n)
	for i := range order {
		order[i] = 2*(i%(n/2)) + i/(n/2)
		back[order[i]] = i
	}
	return order, back
}

const engineNotes = "t is (positions, batch, heads, size), (batch, positions, heads, size) in bshd, (rows, heads, " +
	"size) " +
	"in thd, where sequence i has the rows from cu_seqlens[i] to cu_seqlens[i+1]; freqs is (positions, 1, 1, " +
	"angles), " +
	"from start_positions[i] of sequence i. Neighbours are turned if interleaved, else elements of one place in both " +
	"halves. Parts of sequences (cp_size) are refused."

// engineRope is Transformer Engine's rotary embedding.
func engineRope(g *compose.Graph, a *engineRopeArgs) *compose.Value {
	if a.CpSize != 1 {
		g.Unsupported("cp_size", "parts of sequences are not supported")
	}
	t := turn{a.Interleaved, !a.Fused, 1}
	var starts []int
	if a.StartPositions != nil {
		starts = fused.Ints(g, "start_positions", a.StartPositions)
	}
	start := func(i int) int {
		if starts == nil {
			return 0
		}
		if i >= len(starts) {
			g.Refuse("start_positions", "want one for each sequence, got %d", len(starts))
		}
		return starts[i]
	}
	if a.TensorFormat == "thd" {
		if a.CuSeqlens == nil {
			g.Refuse("cu_seqlens", "want the ends of sequences")
		}
		return t.packed(g, a.T, a.Freqs, a.CuSeqlens, start)
	}
	x, dims := g.Arg("t", a.T), map[string][2]int{"sbhd": {0, 1}, "bshd": {1, 0}}
	at, ok := dims[a.TensorFormat]
	if fused.CheckRank(g, "t", x, 4); !ok {
		g.Refuse("tensor_format", "want sbhd, bshd or thd, got %q", a.TensorFormat)
	}
	n, batch := x.Shape()[at[0]], x.Shape()[at[1]]
	rows := tensor.Make[int](n * batch) // by batch, then position
	for i := range rows {
		rows[i] = start(i/n) + i%n
	}
	freqs := g.Arg("freqs", a.Freqs)
	turned := rowsOf(g, freqs, rows, 1)
	turned = g.Reshape(turned, batch, n, 1, turned.Shape()[2])
	if a.TensorFormat == "sbhd" {
		turned = g.Transpose(turned, 0, 1)
	}
	return t.byAngles(g, "t", x, turned)
}

// plane is t with the halves of heads turned by the angles of rows and of columns.
func plane(g *compose.Graph, a *planeArgs) *compose.Value {
	x := g.Arg("t", a.T)
	fused.CheckRank(g, "t", x, 4)
	s := x.Shape()
	if a.ImgH < 1 || a.ImgW < 1 || s[1]%a.ImgW != 0 || s[1]/a.ImgW != a.ImgH || s[3]%4 != 0 {
		g.Refuse("t", "%s does not hold images of %d by %d with heads of a multiple of 4", a.T.Meta(), a.ImgH, a.ImgW)
	}
	halves := g.Chunk(g.Reshape(x, s[0], a.ImgH, a.ImgW, s[2], s[3]), 2, -1)
	along := func(name string, t *tensor.Tensor, n int, shape ...int) *compose.Value {
		c := g.Detach(g.Arg(name, t))
		if c.Dim() != 4 || c.Shape()[0] != 1 || c.Shape()[1] < n || c.Shape()[2] != 1 || c.Shape()[3] != s[3]/2 {
			g.Refuse(name, "want (1, %d, 1, %d), got %s", n, s[3]/2, t.Meta())
		}
		return g.Reshape(g.Narrow(c, 1, 0, n), append(shape, s[3]/2)...)
	}
	t := turn{scale: 1}
	rows := t.by(g, "t", halves[0], along("cos_h", a.CosH, a.ImgH, a.ImgH, 1, 1), along("sin_h", a.SinH, a.ImgH, a.ImgH,
		1, 1))
	cols := t.by(g, "t", halves[1], along("cos_w", a.CosW, a.ImgW, a.ImgW, 1), along("sin_w", a.SinW, a.ImgW,
		a.ImgW, 1))
	return g.Reshape(g.Cat(-1, rows, cols), s...)
}
