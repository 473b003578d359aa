package matmul

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// matmulOps are products of matrices and vectors, all of them contractions.
var matmulOps = []*opdef.Entry{
	Multilinear(Op[matmulArgs]{
		Schema: "matmul(Tensor self, Tensor other) -> Tensor",
		Names:  "matmul Tensor.matmul linalg.matmul Tensor.__matmul__",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{Summary: "Matrix product with broadcast batch dimensions", Formula: "self @ other",
			Notes: "(..., M, K) with (..., K, N); a vector is a row on the left, a column on the right."},
		Node: func(c *Call[matmulArgs], g *opdef.Grad) (opdef.Node, error) {
			return matmulNode(c.Args.Self, c.Args.Other, g)
		},
		Cases: matmulCases,
	}, func(a *matmulArgs) (*Product, error) { return matmulPlan(a.Self, a.Other, "self", "other") }),
	Multilinear(Op[matmulArgs]{
		Schema: "__rmatmul__(Tensor self, Tensor other) -> Tensor",
		Names:  "Tensor.__rmatmul__",
		Traits: opdef.Traits{
			Composite: true, // of a product with the gradients in the other order
			Autocast:  opdef.AutocastLower,
		},
		Doc: opdef.Doc{Summary: "Matrix product with the operands swapped", Formula: "other @ self",
			Source: "torch.matmul"},
		Node: func(c *Call[matmulArgs], g *opdef.Grad) (opdef.Node, error) {
			return matmulNode(c.Args.Other, c.Args.Self, g)
		},
		Cases: func(g opdef.Gen) []*matmulArgs {
			cs := matmulCases(g)
			for _, c := range cs {
				c.Self, c.Other = c.Other, c.Self
			}
			return cs
		},
	}, func(a *matmulArgs) (*Product, error) { return matmulPlan(a.Other, a.Self, "other", "self") }),
	Multilinear(Op[MMArgs]{
		Schema: "mm(Tensor self, Tensor mat2) -> Tensor",
		Names:  "mm Tensor.mm spmm",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{Summary: "Product of two matrices", Formula: "self @ mat2",
			Notes: "(M, K) with (K, N), no broadcasting."},
		Cases: opdef.Calls[MMArgs](`
			f64[3, 4], f64[4, 2]; f64[1, 5], f64[5, 1]; f64[0, 2], f64[2, 3]; f64[3, 0], f64[0, 2]
			for T in f32 bf16 f16 c128 c64: T[3, 4], T[4, 2]
			for T in i64 i32 i8: T[3, 4]{-9..9}, T[4, 2]{-9..9}
			f64[3, 4]{gaps}, f64[4, 2]{gaps}`),
	}, func(a *MMArgs) (*Product, error) { return fixed("ij", "jk", "ik", a.Self, a.Mat2, "self", "mat2") }),
	Multilinear(Op[MMArgs]{
		Schema: "bmm(Tensor self, Tensor mat2) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{Summary: "Products of two batches of matrices", Formula: "self[b] @ mat2[b]",
			Notes: "(B, M, K) with (B, K, N), no broadcasting."},
		Cases: opdef.Calls[MMArgs](`
			f64[2, 3, 4], f64[2, 4, 2]; f64[1, 1, 5], f64[1, 5, 1]; f64[0, 2, 3], f64[0, 3, 2]
			f64[2, 3, 0], f64[2, 0, 2]
			for T in f32 bf16 f16 c128 c64: T[2, 3, 4], T[2, 4, 2]
			for T in i64 i32 i8: T[2, 3, 4]{-9..9}, T[2, 4, 2]{-9..9}
			f64[2, 3, 4]{gaps}, f64[2, 4, 2]{gaps}`),
	}, func(a *MMArgs) (*Product, error) { return fixed("bij", "bjk", "bik", a.Self, a.Mat2, "self", "mat2") }),
	Multilinear(Op[mvArgs]{
		Schema: "mv(Tensor self, Tensor vec) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc:    opdef.Doc{Summary: "Product of a matrix and a vector", Formula: "self @ vec"},
		Cases: opdef.Calls[mvArgs](`
			f64[3, 4], f64[4]; f64[1, 5], f64[5]; f64[0, 2], f64[2]; f64[3, 0], f64[0]
			for T in f32 bf16 f16 c128 c64: T[3, 4], T[4]
			for T in i64 i32 i8: T[3, 4]{-9..9}, T[4]{-9..9}
			f64[3, 4]{gaps}, f64[4]{gaps}`),
	}, func(a *mvArgs) (*Product, error) { return fixed("ij", "j", "i", a.Self, a.Vec, "self", "vec") }),
	Multilinear(Op[dotArgs]{
		Schema: "dot(Tensor self, Tensor tensor) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastWidest},
		Doc: opdef.Doc{Summary: "Inner product of two vectors, without conjugation",
			Formula: "sum(self * tensor)"},
		Cases: opdef.Calls[dotArgs](`
			f64[4], f64[4]; f64[1], f64[1]; f64[0], f64[0]
			for T in f32 bf16 f16 c128 c64: T[4], T[4]
			for T in i64 i32 i8: T[4]{-9..9}, T[4]{-9..9}
			f64[4]{gaps}, f64[4]{gaps}`),
	}, func(a *dotArgs) (*Product, error) { return fixed("i", "i", "", a.Self, a.Tensor, "self", "tensor") }),
	Multilinear(Op[vdotArgs]{
		Schema: "vdot(Tensor self, Tensor other) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastWidest},
		Doc: opdef.Doc{Summary: "Inner product of two vectors, the first conjugated",
			Formula: "sum(conj(self) * other)"},
		Cases: opdef.Calls[vdotArgs](`
			f64[4], f64[4]; f64[1], f64[1]; f64[0], f64[0]
			for T in f32 bf16 f16 c128 c64: T[4], T[4]
			for T in i64 i32 i8: T[4]{-9..9}, T[4]{-9..9}
			f64[4]{gaps}, f64[4]{gaps}`),
	}, func(a *vdotArgs) (*Product, error) {
		p, err := fixed("i", "i", "", elements.Conj(a.Self), a.Other, "self", "other")
		if err == nil {
			p.conj = true
		}
		return p, err
	}),
	Multilinear(Op[vecdotArgs]{
		Schema: "vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Names:  "linalg.vecdot",
		Doc: opdef.Doc{Summary: "Inner products along a dimension, the first operand conjugated",
			Formula: "sum(conj(x) * y, dim)"},
		Cases: opdef.Calls[vecdotArgs](`
			f64[4], f64[4]; f64[2, 3], f64[2, 3]; f64[2, 1, 3], f64[2, 3]; f64[0, 2], f64[2]
			for T in f32 bf16 f16 c128 c64: T[4], T[4]
			for T in i64 i32 i8: T[4]{-9..9}, T[4]{-9..9}
			f64[4]{gaps}, f64[4]{gaps}`),
	}, vecdotPlan),
	Multilinear(Op[innerArgs]{
		Schema: "inner(Tensor self, Tensor other) -> Tensor",
		Traits: opdef.Traits{Composite: true, LastView: true, Autocast: opdef.AutocastLower},

		Doc: opdef.Doc{Summary: "Products summed over the last dimension of both operands",
			Formula: "sum_k self[..., k] * other[..., k]"},
		Node: func(c *Call[innerArgs], g *opdef.Grad) (opdef.Node, error) {
			a := c.Args
			m, n := a.Self.Dim(), a.Other.Dim()
			if m == 0 || n == 0 || m == 1 && n == 1 {
				return opdef.Node{}, nil
			}
			k := max(a.Self.Shape[m-1], 1)
			return elements.ReshapedNode(g, a.Self.Numel()/k, a.Other.Numel()/k), nil
		},
		Cases: opdef.Calls[innerArgs](`
			f64[4], f64[4]; f64[2, 3], f64[3]; f64[2, 3], f64[4, 3]; f64[2, 2, 3], f64[4, 3]; f64[], f64[3]
			f64[2, 0], f64[0]
			for T in f32 bf16 f16 c128 c64: T[4], T[4]
			for T in i64 i32 i8: T[4]{-9..9}, T[4]{-9..9}
			f64[4]{gaps}, f64[4]{gaps}`),
	}, innerPlan),
	Multilinear(Op[outerArgs]{
		Schema: "outer(Tensor self, Tensor vec2) -> Tensor",
		Names:  "outer ger Tensor.outer Tensor.ger",
		Doc:    opdef.Doc{Summary: "All products of the elements of two vectors", Formula: "self[i] * vec2[j]"},
		Node: func(c *Call[outerArgs], g *opdef.Grad) (opdef.Node, error) { // a product with self as a column
			gr, err := c.Grads(g)
			if err != nil {
				return opdef.Node{}, err
			}
			column := gr["self"][0].Reshape(c.Args.Self.Numel(), 1)
			return opdef.Node{Grads: []*tensor.Tensor{column, gr["vec2"][0]}}, nil
		},
		Cases: opdef.Calls[outerArgs](`
			f64[4], f64[3]; f64[1], f64[1]; f64[0], f64[2]
			for T in f32 bf16 f16 c128 c64: T[4], T[3]
			for T in i64 i32 i8: T[4]{-9..9}, T[3]{-9..9}
			f64[4]{gaps}, f64[3]{gaps}; f32[3], i32[2]{-3..3}`),
	}, outerPlan),
	Multilinear(Op[addmmArgs]{
		Schema: "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower, InPlace: true},
		Doc: opdef.Doc{Summary: "Matrix product added to a broadcast tensor",
			Formula: "beta*self + alpha*(mat1 @ mat2)", Notes: "With beta 0, self is not read."},
		Cases: opdef.Calls[addmmArgs](`
			f64[3, 2], f64[3, 4], f64[4, 2]; f64[3, 2], f64[3, 4], f64[4, 2], beta=0.5, alpha=-2.0
			f64[2], f64[3, 4], f64[4, 2], beta=2, alpha=0.25; f32[3, 2], f32[3, 4], f32[4, 2], beta=0.0
			f32[3, 2], f32[3, 4], f32[4, 2]; bf16[3, 2], bf16[3, 4], bf16[4, 2], beta=0.5
			c128[3, 2], c128[3, 4], c128[4, 2], beta=0.5+1j, alpha=0-1j
			i64[3, 2]{-5..5}, i64[3, 4]{-5..5}, i64[4, 2]{-5..5}, beta=2, alpha=-3`),
	}, func(a *addmmArgs) (*Product, error) {
		p, err := fixed("ij", "jk", "ik", a.Mat1, a.Mat2, "mat1", "mat2")
		return p.plus(a.Self, &a.Beta, &a.Alpha), err
	}),
	Multilinear(Op[addbmmArgs]{
		Schema: "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower, InPlace: true, Resizes: true},

		Doc: opdef.Doc{Summary: "Sum of a batch of matrix products added to a broadcast tensor",
			Formula: "beta*self + alpha*sum_b(batch1[b] @ batch2[b])", Notes: "With beta 0, self is not read."},
		Cases: opdef.Calls[addbmmArgs](`
			f64[3, 2], f64[2, 3, 4], f64[2, 4, 2]; f64[3, 2], f64[2, 3, 4], f64[2, 4, 2], beta=0.5, alpha=-2.0
			f64[2], f64[2, 3, 4], f64[2, 4, 2], beta=2, alpha=0.25; f32[3, 2], f32[2, 3, 4], f32[2, 4, 2], beta=0.0
			f32[3, 2], f32[2, 3, 4], f32[2, 4, 2]; bf16[3, 2], bf16[2, 3, 4], bf16[2, 4, 2], beta=0.5
			c128[3, 2], c128[2, 3, 4], c128[2, 4, 2], beta=0.5+1j, alpha=0-1j
			i64[3, 2]{-5..5}, i64[2, 3, 4]{-5..5}, i64[2, 4, 2]{-5..5}, beta=2, alpha=-3`),
	}, func(a *addbmmArgs) (*Product, error) {
		p, err := fixed("bij", "bjk", "ik", a.Batch1, a.Batch2, "batch1", "batch2")
		return p.plus(a.Self, &a.Beta, &a.Alpha), err
	}),
	Multilinear(Op[addbmmArgs]{
		Schema: "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower, InPlace: true},
		Doc: opdef.Doc{Summary: "Batch of matrix products added to a broadcast tensor",
			Formula: "beta*self + alpha*(batch1[b] @ batch2[b])", Notes: "With beta 0, self is not read."},
		Cases: opdef.Calls[addbmmArgs](`
			f64[2, 3, 2], f64[2, 3, 4], f64[2, 4, 2]
			f64[2, 3, 2], f64[2, 3, 4], f64[2, 4, 2], beta=0.5, alpha=-2.0
			f64[2], f64[2, 3, 4], f64[2, 4, 2], beta=2, alpha=0.25
			f32[2, 3, 2], f32[2, 3, 4], f32[2, 4, 2], beta=0.0; f32[2, 3, 2], f32[2, 3, 4], f32[2, 4, 2]
			bf16[2, 3, 2], bf16[2, 3, 4], bf16[2, 4, 2], beta=0.5
			c128[2, 3, 2], c128[2, 3, 4], c128[2, 4, 2], beta=0.5+1j, alpha=0-1j
			i64[2, 3, 2]{-5..5}, i64[2, 3, 4]{-5..5}, i64[2, 4, 2]{-5..5}, beta=2, alpha=-3`),
	}, func(a *addbmmArgs) (*Product, error) {
		p, err := fixed("bij", "bjk", "bik", a.Batch1, a.Batch2, "batch1", "batch2")
		return p.plus(a.Self, &a.Beta, &a.Alpha), err
	}),
	Multilinear(Op[addmvArgs]{
		Schema: "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower, InPlace: true},
		Doc: opdef.Doc{Summary: "Product of a matrix and a vector added to a broadcast tensor",
			Formula: "beta*self + alpha*(mat @ vec)", Notes: "With beta 0, self is not read."},
		Cases: opdef.Calls[addmvArgs](`
			f64[3], f64[3, 4], f64[4]; f64[3], f64[3, 4], f64[4], beta=0.5, alpha=-2.0
			f64[3], f64[3, 4], f64[4], beta=2, alpha=0.25; f32[3], f32[3, 4], f32[4], beta=0.0
			f32[3], f32[3, 4], f32[4]; bf16[3], bf16[3, 4], bf16[4], beta=0.5
			c128[3], c128[3, 4], c128[4], beta=0.5+1j, alpha=0-1j
			i64[3]{-5..5}, i64[3, 4]{-5..5}, i64[4]{-5..5}, beta=2, alpha=-3`),
	}, func(a *addmvArgs) (*Product, error) {
		p, err := fixed("ij", "j", "i", a.Mat, a.Vec, "mat", "vec")
		return p.plus(a.Self, &a.Beta, &a.Alpha), err
	}),
	Multilinear(Op[addrArgs]{
		Schema: "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower, InPlace: true},
		Doc: opdef.Doc{Summary: "Outer product added to a broadcast matrix",
			Formula: "beta*self + alpha*vec1[i]*vec2[j]", Notes: "With beta 0, self is not read."},
		Cases: opdef.Calls[addrArgs](`
			f64[3, 2], f64[3], f64[2]; f64[3, 2], f64[3], f64[2], beta=0.5, alpha=-2.0
			f64[2], f64[3], f64[2], beta=2, alpha=0.25; f32[3, 2], f32[3], f32[2], beta=0.0
			f32[3, 2], f32[3], f32[2]; bf16[3, 2], bf16[3], bf16[2], beta=0.5
			c128[3, 2], c128[3], c128[2], beta=0.5+1j, alpha=0-1j
			i64[3, 2]{-5..5}, i64[3]{-5..5}, i64[2]{-5..5}, beta=2, alpha=-3`),
	}, func(a *addrArgs) (*Product, error) {
		p, err := fixed("i", "j", "ij", a.Vec1, a.Vec2, "vec1", "vec2")
		p = p.plus(a.Self, &a.Beta, &a.Alpha)
		if p != nil {
			p.promote, p.numeric = true, true
		}
		return p, err
	}),
	Multilinear(Op[linearArgs]{
		Schema: "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
		Names:  "F.linear _C._nn.linear",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{Summary: "Affine map of the last dimension", Formula: "input @ weight.T + bias",
			Notes: "input (..., in), weight (out, in) or (in), bias (out) or ()."},
		Node: linearNode,
		Cases: opdef.Calls[linearArgs](`
			f64[3, 4], f64[2, 4], bias=f64[2]; f64[3, 4], f64[2, 4]; f32[2, 3, 4], f32[5, 4], bias=f32[5]
			f32[2, 3, 4], f32[5, 4]; f64[4], f64[5, 4], bias=f64[5]; f64[2, 4], f64[4]
			bf16[2, 1, 3, 4], bf16[5, 4], bias=bf16[5]; c128[2, 3], c128[2, 3], bias=c128[2]
			f32[0, 4], f32[5, 4], bias=f32[5]; i64[2, 3]{-3..3}, i64[2, 3]{-3..3}
			f32[2, 33], f32[3, 33], bias=f32[3]; bf16[2, 133], bf16[3, 133], bias=bf16[3]`),
	}, linearPlan),
	Multilinear(Op[bilinearArgs]{
		Schema: "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
		Names:  "F.bilinear bilinear",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc: opdef.Doc{Summary: "Bilinear map of the last dimensions of two tensors",
			Formula: "sum_ij input1[..., i] * weight[o, i, j] * input2[..., j] + bias[o]"},
		Node: func(c *Call[bilinearArgs], g *opdef.Grad) (opdef.Node, error) {
			a := c.Args
			if a.Bias != nil {
				return opdef.Node{Grads: []*tensor.Tensor{g.Out[0], opdef.SumTo(g.Out[0], a.Bias.Shape)},
					Weak: "the incoming gradient, summed for the bias"}, nil
			}
			n := a.Weight.Shape[0]
			return elements.ReshapedNode(g, g.Out[0].Numel()/max(n, 1), n), nil
		},
		Cases: opdef.Calls[bilinearArgs](`
			f64[3, 2], f64[3, 4], f64[5, 2, 4], bias=f64[5]; f32[2, 3, 2], f32[2, 3, 4], f32[5, 2, 4]
			f64[2], f64[4], f64[1, 2, 4], bias=f64[1]; bf16[0, 2], bf16[0, 4], bf16[5, 2, 4]`),
	}, bilinearPlan),
	Multilinear(Op[tensordotArgs]{
		Schema: "tensordot(Tensor a, Tensor b, any dims=2) -> Tensor",
		Names:  "tensordot functional.tensordot",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc: opdef.Doc{Summary: "Products summed over chosen dimensions of both operands",
			Formula: "einsum over the dimensions in dims",
			Notes:   "dims is a number of dimensions (the last of a with the first of b) or two lists."},
		Node: func(c *Call[tensordotArgs], g *opdef.Grad) (opdef.Node, error) {
			a := c.Args
			da, _, err := tensordotDims(a)
			if err != nil {
				return opdef.Node{}, err
			}
			m := 1
			for d, n := range a.A.Shape {
				if !slices.Contains(da, d) {
					m *= n
				}
			}
			return elements.ReshapedNode(g, m, g.Out[0].Numel()/max(m, 1)), nil
		},
		Cases: tensordotCases,
	}, tensordotPlan),
	Multilinear(Op[multiDotArgs]{
		Schema: "multi_dot(Tensor[] tensors) -> Tensor",
		Names:  "linalg.multi_dot",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{Summary: "Product of a chain of matrices", Formula: "tensors[0] @ tensors[1] @ ...",
			Notes: "The first and the last may be vectors."},
		Node: func(*Call[multiDotArgs], *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Skip: "gradients belong to another op"}, nil
		},
		Cases: opdef.Calls[multiDotArgs](`
			[f64[2, 3], f64[3, 4]]; [f64[2, 3], f64[3, 4], f64[4, 2]]; [f32[3], f32[3, 4], f32[4]]
			[f32[0, 3], f32[3, 4]]`),
	}, func(a *multiDotArgs) (*Product, error) { return chainPlan(a.Tensors, "tensors", true) }),
	Multilinear(Op[chainArgs]{
		Schema: "chain_matmul(Tensor[]... matrices) -> Tensor",
		Names:  "chain_matmul functional.chain_matmul",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc:    opdef.Doc{Summary: "Product of a chain of matrices", Formula: "matrices[0] @ matrices[1] @ ..."},
		Node: func(*Call[chainArgs], *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Skip: "gradients belong to another op"}, nil
		},
		Cases: opdef.Calls[chainArgs](`[f64[2, 3], f64[3, 4]]; [f32[2, 3], f32[3, 4], f32[4, 2]]; [f64[2, 3]]`),
	}, func(a *chainArgs) (*Product, error) { return chainPlan(a.Matrices, "matrices", false) }),
	Multilinear(Op[kronArgs]{
		Schema: "kron(Tensor self, Tensor other) -> Tensor",
		Doc: opdef.Doc{Summary: "Kronecker product",
			Formula: "result[i*n + j] = self[i] * other[j] in every dimension of size n"},
		Node: kronNode,
		Cases: opdef.Calls[kronArgs](`
			f64[2, 3], f64[3, 2]; f64[4], f64[2, 2]; f64[], f64[3]; f64[0, 2], f64[2, 2]
			for T in f32 bf16 f16 c128 c64: T[2, 3], T[3, 2]
			for T in i64 i32 i8: T[2, 3]{-9..9}, T[3, 2]{-9..9}
			f64[2, 3]{gaps}, f64[3, 2]{gaps}; f32[2, 2], f64[2, 1]`),
	}, kronPlan),
}

// MMArgs are the arguments of mm and bmm.
type MMArgs struct{ Self, Mat2 *tensor.Tensor }

type (
	matmulArgs struct{ Self, Other *tensor.Tensor }
	mvArgs     struct{ Self, Vec *tensor.Tensor }
	dotArgs    struct{ Self, Tensor *tensor.Tensor }
	vdotArgs   struct{ Self, Other *tensor.Tensor }
	vecdotArgs struct {
		X, Y *tensor.Tensor
		Dim  int
	}
	innerArgs struct{ Self, Other *tensor.Tensor }
	outerArgs struct{ Self, Vec2 *tensor.Tensor }
	kronArgs  struct{ Self, Other *tensor.Tensor }
	addmmArgs struct {
		Self, Mat1, Mat2 *tensor.Tensor
		Beta, Alpha      opdef.Scalar
	}
	addbmmArgs struct {
		Self, Batch1, Batch2 *tensor.Tensor
		Beta, Alpha          opdef.Scalar
	}
	addmvArgs struct {
		Self, Mat, Vec *tensor.Tensor
		Beta, Alpha    opdef.Scalar
	}
	addrArgs struct {
		Self, Vec1, Vec2 *tensor.Tensor
		Beta, Alpha      opdef.Scalar
	}
	linearArgs   struct{ Input, Weight, Bias *tensor.Tensor }
	bilinearArgs struct{ Input1, Input2, Weight, Bias *tensor.Tensor }
	multiDotArgs struct{ Tensors []*tensor.Tensor }
	chainArgs    struct{ Matrices []*tensor.Tensor }
)

// Labels are the labels written as a string: "ij".
func Labels(s string) []int {
	out := make([]int, len(s))
	for i := range s {
		out[i] = int(s[i])
	}
	return out
}

// fixed is the product of two tensors of fixed rank, written as einsum would;
// equal labels must have equal sizes.
func fixed(ix, iy, out string, x, y *tensor.Tensor, nx, ny string) (*Product, error) {
	if x.Dim() != len(ix) {
		return nil, opdef.Refuse(nx, "want %d dimensions, got shape %s", len(ix), tensor.ShapeString(x.Shape))
	}
	if y.Dim() != len(iy) {
		return nil, opdef.Refuse(ny, "want %d dimensions, got shape %s", len(iy), tensor.ShapeString(y.Shape))
	}
	for i := range ix {
		for j := range iy {
			if ix[i] == iy[j] && x.Shape[i] != y.Shape[j] {
				return nil, opdef.Refuse(ny, "size %d of dimension %d does not match size %d of dimension %d of %q",
					y.Shape[j], j, x.Shape[i], i, nx)
			}
		}
	}
	return &Product{Ops: []Operand{{x, Labels(ix)}, {y, Labels(iy)}}, Args: []string{nx, ny}, Out: Labels(out)}, nil
}

// plus adds beta*base and scales the product by alpha; p may be nil.
func (p *Product) plus(base *tensor.Tensor, beta, alpha *opdef.Scalar) *Product {
	if p != nil {
		p.base, p.baseArg, p.beta, p.alpha = base, "self", beta, alpha
	}
	return p
}

// BatchLabels labels the n leading dimensions of a tensor so that they align
// from the right, as broadcasting does.
func BatchLabels(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i - n
	}
	return out
}

func matmulPlan(x, y *tensor.Tensor, nx, ny string) (*Product, error) {
	m, n := x.Dim(), y.Dim()
	if m == 0 {
		return nil, opdef.Refuse(nx, "want at least 1 dimension, got a 0-d tensor")
	}
	if n == 0 {
		return nil, opdef.Refuse(ny, "want at least 1 dimension, got a 0-d tensor")
	}
	kx, ky := x.Shape[m-1], y.Shape[max(n-2, 0)]
	if kx != ky {
		return nil, opdef.Refuse(ny, "shape %s does not match shape %s: inner sizes %d and %d",
			tensor.ShapeString(y.Shape), tensor.ShapeString(x.Shape), kx, ky)
	}
	batch, err := tensor.Broadcast(x.Shape[:max(m-2, 0)], y.Shape[:max(n-2, 0)])
	if err != nil {
		return nil, opdef.Refuse(ny, "batch dimensions: %v", err)
	}
	p := &Product{Args: []string{nx, ny}, Out: BatchLabels(len(batch))}
	ax, ay := append(BatchLabels(max(m-2, 0)), 'i', 'k'), append(BatchLabels(max(n-2, 0)), 'k', 'j')
	if m == 1 {
		ax = ax[1:]
	} else {
		p.Out = append(p.Out, 'i')
	}
	if n == 1 {
		ay = ay[:1]
	} else {
		p.Out = append(p.Out, 'j')
	}
	p.Ops = []Operand{{x, ax}, {y, ay}}
	return p, nil
}

// matmulNode follows the view that ends torch's matmul: of a vector made a
// row, of operands folded into one matrix, of a batch of products.
// Source: aten/src/ATen/native/LinearAlgebra.cpp, _matmul_impl
func matmulNode(x, y *tensor.Tensor, g *opdef.Grad) (opdef.Node, error) {
	m, n := x.Dim(), y.Dim()
	out := g.Outs[0].Shape
	switch {
	case m <= 2 && n <= 2:
		if m == 1 && n == 2 {
			return elements.ReshapedNode(g, 1, out[0]), nil
		}
		return opdef.Node{}, nil
	case m >= 3 && n <= 2 && folds(x, n):
		rows := tensor.Numel(x.Shape[:m-1])
		if n == 1 {
			return elements.ReshapedNode(g, rows), nil
		}
		return elements.ReshapedNode(g, rows, y.Shape[1]), nil
	case n >= 3 && m == 1 && folds(y, m):
		return elements.ReshapedNode(g, g.Out[0].Numel()), nil
	case n >= 3 && m == 2 && folds(y, m):
		return opdef.Node{Grads: []*tensor.Tensor{g.Out[0]}, Weak: elements.ReshapedOnly}, nil
	}
	rows, cols := 1, 1
	if m > 1 {
		rows = x.Shape[m-2]
	}
	if n > 1 {
		cols = y.Shape[n-1]
	}
	return elements.ReshapedNode(g, g.Out[0].Numel()/max(rows*cols, 1), rows, cols), nil
}

// folds is torch's rule for merging the batch dimensions of t into its rows
// when the other operand has n dimensions.
func folds(t *tensor.Tensor, n int) bool {
	return t.Dim() != 3 || n != 2 || t.Stride[2] == 1 || t.Stride[0] != t.Shape[1]*t.Shape[2]
}

var matmulCases = opdef.Calls[matmulArgs](`
	f64[3, 4], f64[4, 2]; f64[4], f64[4]; f64[4], f64[4, 2]; f64[3, 4], f64[4]; f64[2, 3, 4], f64[4, 2]
	f64[2, 3, 4], f64[4]; f64[4], f64[2, 4, 3]; f64[3, 4], f64[2, 4, 3]; f64[2, 1, 3, 4], f64[5, 4, 2]
	f64[2, 3, 4], f64[2, 4, 3]; f64[0, 3, 4], f64[4, 2]; f64[2, 3, 0], f64[0, 2]
	for T in f32 bf16 f16 c128 c64: T[3, 4], T[4, 2]
	for T in i64 i32 i8: T[3, 4]{-9..9}, T[4, 2]{-9..9}
	f64[3, 4]{gaps}, f64[4, 2]{gaps}; f64[2, 3, 4]{gaps}, f64[2, 4, 3]; f32[2, 3], f32[3, 2]{turned}
	f32[3, 3], f32[3, 3]`)
