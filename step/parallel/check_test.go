package parallel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/parallel"
)

// trees are the recordings of testdata with what is first found in them: nothing where the kind is empty.
var trees = []struct {
	tree, kind, op, says string // no kind: nothing is wrong
	layout               string
}{
	{"data", "", "", "", "[2 (ranks 0-1); parameters: 4 replicated]"},
	{"packed", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated]"},
	{"packed-order", "collective", "torch.Tensor.copy_", "is taken from element 0 on: the buffer is unpacked in", ""},
	{"edges", "", "", "", ""},
	{"edges-first", "collective", "__main__.Before.apply", "puts rows 0-1 beside them, where rows 2-3 lie", ""},
	{"data-alone", "scale", "torch.Tensor.mul", "it scales the loss on rank 1", ""},
	{"data-grad", "scale", "torch.Tensor.mul_", "it scales the gradient of up on rank 1", ""},
	{"data-lost", "scale", "torch.Tensor.add_", "were not reduced, were set to zero, or were added twice", ""},
	{"data-micro", "", "", "", ""},
	{"data-rate", "replica", "torch.Tensor.add_", "another learning rate", ""},
	{"data-skipped", "replica", "torch.Tensor.add_", "ranks 1 do not", ""},
	{"data-scaled", "scale", "torch.Tensor.div_", "0.5 times that of the whole program", ""},
	{"data-unreduced", "replica", "torch.nn.functional.linear", "the gradient of up is a partial sum over ranks " +
		"0-1", ""},
	{"clip", "", "", "", ""}, // the optimizer keeps the gradients of the first step
	{"clip-before", "collective", "torch._foreach_norm", "takes the norm of its own gradient", ""},
	{"clip-placed", "", "", "", ""}, // DTensor takes the norm of the sum
	{"copied", "", "", "", ""},      // layers of two stages that begin as copies
	{"labels", "", "", "", ""},
	{"labels-stale", "shard", "torch.nn.functional.cross_entropy", "the loss of microbatch 2", ""},
	{"tied-unused", "replica", "torch.nn.functional.linear", "their sum is not what the update reads", ""},
	{"apart-unsummed", "collective", "torch.Tensor.add", "So did earlier steps", ""},
	{"around-ring", "", "", "", ""},
	{"around-ring-late", "shard", "torch.Tensor.add", "was made of the positions 0 to 5", ""},
	{"around-ring-counts", "scale", "torch.Tensor.div", "by different numbers (9, 12)", ""},
	{"chosen", "", "", "", ""},
	{"chosen-other", "shard", "torch.nn.functional.linear", "chose no expert for all of them", ""},
	{"clip-watched", "", "", "", ""}, // the norm of each rank's own gradients scales nothing
	{"weighed", "", "", "", ""},
	{"weighed-twice", "scale", "torch.Tensor.div_", "0.25 times that of the whole program", ""},
	{"offsets", "", "", "", ""},
	{"offsets-zero", "shard", "torch.nn.functional.embedding", "and rank 1 for rows 0 to 5, which do not follow", ""},
	{"offsets-copied", "shard", "torch.nn.functional.embedding", "and all hold the same rows", ""},
	{"rotated", "", "", "", ""},
	{"rotated-turn", "shard", "torch.Tensor.mul", "by position 3, and the causal mask", ""},
	{"rotated-mask", "shard", "torch.nn.functional.scaled_dot_product_attention", "takes it for position 3", ""},
	{"taken", "", "", "", ""},
	{"taken-other", "shard", "torch.nn.functional.cross_entropy", "is row 4 of the whole", ""},
	{"targets", "", "", "", ""},
	{"targets-other", "shard", "torch.nn.functional.mse_loss", "rank 1 compares its results with the data of rank 0", ""},
	{"given", "", "", "", ""},
	{"given-swapped", "shard", "__main__.Swap.apply", "are exchanged in another way than before", ""},
	{"wrapped", "", "", "", ""},
	{"wrapped-inside", "replica", "torch.nn.functional.linear", "only reduces the gradients of its own call", ""},
	{"bank", "", "", "", ""},
	{"bank-own", "replica", "torch.Tensor.__setitem__", "each writes what it has itself", ""},
	{"begun", "replica", "torch.nn.functional.linear", "up differs between ranks 0-1", ""},
	{"begun-alone", "replica", "torch.nn.functional.linear", "the gradient of up is a partial sum over ranks 0-1", ""},
	{"begun-own", "replica", "torch.nn.functional.linear", "each began with its own", ""},
	{"begun-sent", "", "", "", "[2 (ranks 0-1); parameters: 2 replicated]"},
	{"begun-dropout", "replica", "torch.nn.functional.dropout", "each drops other elements", ""},
	{"clip-divided", "scale", "torch._foreach_norm", "torch.Tensor.div_/30 divides them later", ""},
	{"clip-half", "", "", "", ""},
	{"clip-once", "", "", "", ""},    // rank 0 alone reads the gradients that all have, for the norm
	{"clip-outside", "", "", "", ""}, // a parameter outside the module is clipped with them
	{"clip-value", "", "", "", ""},
	{"columns", "", "", "", ""},
	{"context", "", "", "", ""},
	{"context-late", "shard", "torch.Tensor.le", "rank 1 has 5 to 8", ""},
	{"context-triangle", "", "", "", ""},
	{"context-triangle-late", "shard", "torch.Tensor.tril", "rank 1 has 4 from 3 on", ""},
	{"clip-scaled", "", "", "", ""},
	{"clip-scaled-late", "scale", "torch._foreach_norm", "still 1024 times those of the loss", ""},
	{"kept", "", "", "", "[2 (ranks 0-1); parameters: 1 replicated]"},
	{"masked", "", "", "", "[2 x 2 (ranks 0-1 2-3 | 0,2 1,3); parameters: 3 sharded along dimension 0 and replicated," +
		" 1 sharded along dimension 1 and replicated]"},
	{"masked-alone", "replica", "torch.nn.functional.linear", "bias is a partial sum over ranks 0,2; each", ""},
	{"dtensor", "", "", "", ""},
	{"experts", "", "", "", "[2 (ranks 0-1); parameters: 1 another on each rank, 1 replicated]"},
	{"numbered", "", "", "", "[2 (ranks 0-1); parameters: 3 another on each rank, 1 replicated]"},
	{"local", "", "", "", "[2 (ranks 0-1); parameters: 2 replicated]"},
	{"local-grad", "collective", "torch.distributed.all_reduce", "rank 1 gives it the gradient of down", ""},
	{"master", "", "", "", "[2 (ranks 0-1); parameters: 2 replicated]"},
	{"master-stale", "collective", "torch.distributed.all_gather_into_tensor", "the parts are gathered before", ""},
	{"pieces", "", "", "", ""},
	{"pieces-own", "replica", "torch.nn.functional.linear", "unless all have the same up", ""},
	{"pieces-sum", "collective", "torch.Tensor.chunk", "a reduce_scatter is missing", ""},
	{"samples", "", "", "", ""},
	{"samples-noted", "", "", "", ""}, // the same tokens, and other values to learn
	{"samples-twice", "shard", "torch.nn.functional.embedding", "ranks 0-1 read the same data", ""},
	{"positions", "", "", "", ""},
	{"positions-late", "shard", "torch.Tensor.mul", "made of the positions 0 to 3, which torch.arange/0", ""},
	{"positions-labels", "shard", "torch.nn.functional.cross_entropy", "each rank shifted the labels of its own part", ""},
	{"factor", "", "", "", ""},
	{"factor-row", "replica", "torch.Tensor.mul", "it is a partial sum over ranks 0,2, too", ""},
	{"tied", "", "", "", ""},
	{"tied-half", "scale", "torch.Tensor.div_", "0.5 times that of the whole program", ""},
	{"tied-apart", "replica", "torch.nn.functional.embedding", "a broadcast is missing", ""},
	{"gathered", "", "", "", ""},
	{"gathered-order", "collective", "torch.distributed.all_gather", "rank 0 made of the gradient of up", ""},
	{"halves", "", "", "", ""},
	{"halves-again", "collective", "torch.distributed.all_reduce", "these are parts of one sum", ""},
	{"widths", "", "", "", ""},
	{"widths-own", "scale", "torch.Tensor.div", "6 terms of each, and is divided by 6: the mean of all 12", ""},
	{"widths-rows", "", "", "", ""}, // the terms are the same rows on both ranks, and each of them is a partial sum
	{"rounds", "", "", "", ""},      // two updates in each step
	{"rounds-last", "replica", "torch.nn.functional.linear", "is a partial sum over ranks 0-1", ""},
	{"bags", "", "", "", ""},    // each rank has its own tables
	{"stacked", "", "", "", ""}, // chunks of another dimension than the first, for a reduce_scatter
	{"statistics", "", "", "", ""},
	{"statistics-outside", "collective", "torch.distributed.all_reduce", "outside of autograd", ""},
	{"statistics-own", "scale", "torch.Tensor.div", "takes it with another count (10, 6)", ""},
	{"binary", "", "", "", ""},
	{"outer", "", "", "", ""}, // what changed is averaged
	{"outer-none", "collective", "torch.distributed.all_reduce", "something else of rank 1", ""},
	{"outer-third", "scale", "torch.Tensor.div", "added up, by 3: there are 2 ranks", ""},
	{"outer-half", "replica", "torch.Tensor.copy_", "have the same down before the step, and another one", ""},
	{"shards", "", "", "", ""},
	{"shards-one", "scale", "torch.Tensor.mul_", "on rank 1 the update of 2.weight reads 0.5 times", ""},
	{"shards-unreduced", "replica", "torch.nn.functional.linear", "set_requires_gradient_sync(False)", ""},
	{"binary-rate", "replica", "torch.optim.sgd.sgd", "rank 1 updates parameters by one line with other numbers", ""},
	{"features", "", "", "", ""}, // of all ranks, on each
	{"features-own", "", "", "", ""},
	{"features-labels", "shard", "torch.nn.functional.cross_entropy", "name the rows of rank 0 on every rank", ""},
	{"features-queue", "shard", "torch.nn.functional.cross_entropy", "lack the number of the rank's first row", ""},
	{"features-older", "", "", "", ""}, // each rank's own rows, and older ones
	{"features-dealt", "", "", "", ""}, // of the whole loss, divided by the number of ranks
	{"features-sum", "scale", "__main__.Join.apply", "its backward pass makes the gradient 2 times as large", ""},
	{"heads", "", "", "", "[2 (ranks 0-1); parameters: 4 replicated]"}, // an all_to_all shares out heads
	{"heads-causal", "", "", "", ""},
	{"heads-causal-one", "replica", "torch.nn.functional.scaled_dot_product_attention",
		"is_causal=False, and not is_causal=True", ""},
	{"heads-mask", "shard", "torch.Tensor.masked_fill", "input[0] is sharded along dimension 1", ""},
	{"heads-turned", "", "", "", ""},
	{"heads-turned-late", "shard", "torch.Tensor.mul", "made of the positions 0 to 3, which torch.arange/7", ""},
	{"joint", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated]"}, // functions that compute and pass values in one
	{"joint-alone", "collective", "__main__.Centre.apply", "lacks what came from other ranks", ""},
	{"joint-columns", "", "", "", "[2 (ranks 0-1); parameters: 1 replicated, 1 sharded along dimension 0, " +
		"1 sharded along dimension 1]"},
	{"joint-ring", "", "", "", ""},
	{"joint-ring-on", "collective", "__main__.Beside.apply", "what rank 0 has is that of rank 1, and so on", ""},
	{"flat", "", "", "", "[2 (ranks 0-1); parameters: 4 replicated]"},
	{"flat-stale", "collective", "torch.distributed.all_gather_into_tensor", "what ranks 0-1 made of their parts", ""},
	{"flat-sum", "scale", "torch.Tensor.sub_", "is 2 times that of the whole program", ""},
	{"fused", "", "", "", "[2 (ranks 0-1); parameters: 4 sharded along dimension 0, " +
		"1 sharded along dimension 1]"},
	{"grid", "", "", "", "[2 x 2 (ranks 0,2 1,3 | 0-1 2-3); parameters: 1 replicated]"},
	{"grid-row", "replica", "torch.nn.functional.linear", "it is a partial sum over ranks 0,2, too", ""},
	{"halo", "", "", "", ""},
	{"halo-kept", "collective", "__main__.Halo.apply", "rank 1 got what rank 0 gave it, and the gradient that it has", ""},
	{"owner", "", "", "", "[2 (ranks 0-1); parameters: 2 replicated]"},
	{"lead", "", "", "", "[2 (ranks 0-1); parameters: 2 replicated]"}, // only rank 0 counts steps
	{"lead-scaled", "scale", "torch.Tensor.div_", "is 0.5 times that of the whole program", ""},
	{"lead-three", "", "", "", "[3 (ranks 0-2); parameters: 2 replicated]"},
	{"lead-turns", "", "", "", ""}, // ranks count steps at other places
	{"losses-weight", "", "", "", ""},
	{"losses-own", "", "", "", ""},
	{"losses-two", "", "", "", ""},
	{"losses-scaled", "", "", "", ""},
	{"losses-uneven", "", "", "", ""},
	{"losses-micro", "", "", "", ""},
	{"counted", "", "", "", ""}, // in both of two updates
	{"counted-one", "scale", "torch.optim.sgd.sgd", "divides by the number of terms of one rank", ""},
	{"losses-count", "", "", "", ""},
	{"losses-count-sum", "scale", "torch.Tensor.add_", "2 times that of the whole program", ""},
	{"losses-third", "scale", "torch.Tensor.div_", "is 0.6667 times that of the whole program when", ""},
	{"owner-alone", "replica", "torch.Tensor.sqrt", "lack an all_reduce", ""},
	{"owner-quarter", "scale", "torch.Tensor.div_", "0.5 times that of the whole program when", ""},
	{"owner-clip", "", "", "", ""},
	{"owner-left", "", "", "", ""}, // the gradients hold more than the recorded calls made
	{"owner-left-half", "scale", "torch.Tensor.div_", "the gradient of down that torch.optim.adam.adam", ""},
	{"owner-source", "collective", "torch.distributed.broadcast", "the update is lost", ""},
	{"owner-stale", "collective", "torch.distributed.broadcast", "before rank 1 updates it", ""},
	{"owner-sum", "scale", "torch.Tensor.div_", "2 times that of the whole program", ""},
	{"batch", "", "", "", "[2 (ranks 0-1); parameters: 1 replicated]"}, // experts that ranks call by lines of their own
	{"blocks", "", "", "", ""},
	{"blocks-kept", "shard", "torch.Tensor.div", "depends on the largest score", ""},
	{"blocks-values", "shard", "torch.Tensor.matmul", "the values of rank 0 by the scores of the keys of rank 2", ""},
	{"routed", "", "", "", ""},
	{"routed-other", "shard", "torch.Tensor.matmul", "the router chose no expert for all of them", ""},
	{"routed-shifted", "", "", "", ""}, // rows that are back in their order, and then shifted
	{"routed-weights", "", "", "", ""}, // as on one device
	{"micro", "", "", "", ""},
	{"micro-first", "scale", "torch.optim.sgd.sgd", "calls of the step count with different numbers", ""},
	{"micro-one", "scale", "torch.Tensor.mean", "the others are divided by 3, and this one is not", ""},
	{"turns", "", "", "", ""}, // rows of all ranks, one after another
	{"turns-back", "collective", "__main__.Turns.apply", "their parts are not added up", ""},
	{"turns-order", "shard", "__main__.Turns.apply", "the parts are in another order than the ranks", ""},
	{"unequal", "", "", "", ""}, // the ranks have other numbers of experts
	{"filled", "", "", "", ""},  // one part is filled up with zeros, and these are cut off again
	{"filled-kept", "shard", "__main__.Fill.apply", "rank 1 gave 3 rows, and its part of the result is filled", ""},
	{"unequal-back", "shard", "__main__.Exchange.apply", "gets back are those of other rows of the batch", ""},
	{"vocabulary", "", "", "", ""},
	{"vocabulary-first", "shard", "__main__.Vocabulary.apply", "its gradient is not that of the cross entropy", ""},
	{"ring", "", "", "", "[3 (ranks 0-2); parameters: 1 replicated]"},
	{"ring-on", "collective", "__main__.Shift.apply", "the backward pass sends gradients to other ranks", ""},
	{"own-batch", "", "", "", "[2 (ranks 0-1); parameters: 1 of unknown placement, 1 replicated]"},
	{"own-labels", "", "", "", "[2 (ranks 0-1); parameters: 1 replicated]"}, // all ranks have the same
	{"own-mean", "", "", "", ""},
	{"own-micro", "", "", "", ""},
	{"own-mixed", "", "", "", ""}, // each mixes its rows with a weight of its own
	{"own-packed", "", "", "", ""},
	{"own-pairs", "", "", "", ""},
	{"own-some", "", "", "", ""}, // a number that one rank scales, and that is no loss
	{"own-steps", "", "", "", ""},
	{"own-views", "", "", "", ""}, // two views of the rows of each rank in one batch
	{"pooled", "", "", "", ""},    // the ranks' parts of a gradient are equal
	{"pooled-alone", "scale", "torch.Tensor.add_", "bias that torch.Tensor.add_/12 reads is 0.5 times", ""},
	{"around", "", "", "", ""}, // keys pass all ranks
	{"around-striped", "", "", "", ""},
	{"around-striped-other", "shard", "torch.Tensor.gt", "rank 0 masks the keys of rank 0 by the positions of rank 1", ""},
	{"around-other", "shard", "torch.Tensor.gt", "rank 0 masks the keys of rank 0 by the positions of rank 1", ""},
	{"both", "", "", "", ""},
	{"both-sum", "scale", "__main__.Both.apply", "its backward pass makes the gradient 2 times as large", ""},
	{"own-sum", "scale", "torch.Tensor.add_", "divides by the number of terms of one rank", ""},
	{"own-whole", "", "", "", ""},
	{"planned", "", "", "", "[2 (ranks 0-1); parameters: 4 replicated, 3 sharded along dimension 0, " +
		"1 sharded along dimension 1]"},
	{"planned-half", "scale", "torch.Tensor.div_", "the gradient of up.weight that torch.optim.sgd.sgd/64 reads", ""},
	{"planned-positions", "shard", "torch.Tensor.add", "made of the positions 0 to 2, which torch.arange/0", ""},
	{"pipeline", "", "", "", "[rank 0; parameters: 2 whole rank 1; parameters: 2 whole]"},
	{"pipeline-steps", "", "", "", ""},
	{"leaf", "", "", "", ""}, // one leaf takes all microbatches
	{"leaf-kept", "collective", "torch.distributed.send", "the sum of the gradients of 2 values", ""},
	{"pipeline-one", "scale", "torch.Tensor.div_", "and those of rank 0's 1 times", ""},
	{"ragged", "", "", "", ""},     // sequences of other lengths
	{"ragged-not", "", "", "", ""}, // of one length, with positions that each rank repeats
	{"ragged-alone", "replica", "torch.nn.functional.embedding", "the gradient of places is a partial sum", ""},
	{"ragged-mean", "scale", "torch.nn.functional.cross_entropy", "have 60 84 elements", ""},
	{"replicas", "", "", "", "[2 (ranks 0,2); parameters: 1 replicated 2 (ranks 1,3); parameters: 1 replicated]"},
	{"replicas-sum", "scale", "torch.Tensor.add_", "is 2 times that of the whole program", ""},
	{"sequence", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated, 1 sharded along dimension 0, " +
		"1 sharded along dimension 1]"},
	{"sequence-alone", "replica", "torch.nn.functional.layer_norm", "the gradient of norm is a partial sum", ""},
	{"sequence-same", "replica", "torch.Tensor.mul", "they draw with the same random state", ""},
	{"sequence-cut", "collective", "torch.Tensor.add", "the result of __main__.Cut.apply/", ""},
	{"sequence-unsummed", "collective", "torch.Tensor.add", "it lacks a reduce_scatter", ""},
	{"several", "", "", "", ""},
	{"stages", "", "", "", ""},
	{"stages-alone", "replica", "torch.Tensor.sqrt", "is that of the gradients of its stage", ""},
	{"stages-idle", "replica", "torch.Tensor.add_", "updates the parameters of its stage, and rank 0 none", ""},
	{"table-grid", "", "", "", ""}, // both ranks have the same part of a bias' gradient
	{"table", "", "", "", "[2 (ranks 0-1); parameters: 3 sharded along dimension 0]"},
	{"tensor", "", "", "",
		"[2 (ranks 0-1); parameters: 2 replicated, 1 sharded along dimension 0, 1 sharded along dimension 1]"},
	{"tensor-bias", "shard", "torch.nn.functional.linear", "bias is the same on all ranks", ""},
	{"tensor-bias-head", "shard", "torch.nn.functional.linear", "adds that up: it counts 2 times", ""},
	{"tensor-bias-zero", "shard", "torch.nn.functional.linear", "other numbers than 0, it counts 2 times", ""},
	{"tensor-share", "", "", "", ""}, // each rank adds half of the bias
	{"tensor-copied", "scale", "__main__.Copy.apply", "adds up the sum again, with the gradient of", ""},
	{"tensor-double", "scale", "torch.distributed.all_reduce", "once for each of ranks 0-1 that hold them", ""},
	{"tensor-average", "scale", "torch.Tensor.div", "as if it were one of means", ""},
	{"tensor-nocopy", "replica", "torch.nn.functional.linear", "since that of the argument of", ""},
	{"tensor-twice", "scale", "record.Reduce.apply", "is the same on ranks 0-1, and it adds up all of them", ""},
	{"tensor-unsummed", "collective", "torch.Tensor.add", "input[0] is a partial sum", ""},
	{"zero", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated]"},
	{"zero-alone", "replica", "torch.nn.functional.linear", "the gradient of down is a partial sum", ""},
	{"zero-clip", "replica", "torch._foreach_norm", "lack an all_reduce", ""},
	{"zero-global", "", "", "", ""},
	{"zero-decay", "", "", "", ""},
	{"zero-decay-last", "shard", "torch.Tensor.mul", "at element 22: they change where parameters end in part 1", ""},
	{"zero-kept", "collective", "torch.Tensor.copy_", "no call writes it there", ""},
	{"zero-early", "collective", "torch.distributed.all_gather_into_tensor", "no call gathers them behind", ""},
	{"zero-late", "collective", "torch.distributed.all_gather_into_tensor", "gathered before the update", ""},
	{"zero-order", "collective", "torch.distributed.all_gather_into_tensor", "in another order", ""},
	{"zero-shifted", "shard", "torch.optim.adam.adam", "rank 1 updates elements 24 to 49 of a buffer of parameters with the " +
		"gradients of elements 26 to 51", ""},
	{"sampler", "", "", "", ""},
	{"sampler-own", "shard", "torch.Tensor.__getitem__", "which torch.randperm/0 drew with a random state of each", ""},
	{"around-distance", "", "", "", ""},
	{"around-distance-other", "shard", "torch.Tensor.sub", "rank 0 moves the scores of the keys of rank 0 by the positions " +
		"of rank 1", ""},
	{"among-wide", "", "", "", ""},
	{"among-wide-labels", "shard", "torch.nn.functional.cross_entropy", "name the rows of rank 0 on every rank", ""},
	{"passing", "", "", "", ""},
	{"passing-short", "shard", "torch.Tensor.matmul", "by the keys of ranks 0,2, and never by those of rank 1", ""},
	{"tables", "", "", "", "[2 (ranks 0-1); parameters: 1 another on each rank, 1 replicated]"},
	{"tables-sum", "scale", "torch.optim.sgd.sgd", "the gradient of table that", ""},
	{"whitened", "", "", "", ""},
	{"whitened-mean", "collective", "torch.Tensor.sub", "adds up a statistic over the ranks, which it meets in", ""},
	{"whitened-variance", "collective", "torch.Tensor.div", "one is of a part, and the other of the whole", ""},
	{"classes", "", "", "", ""},
	{"classes-other", "replica", "torch.nn.functional.cross_entropy", "compare them with different labels", ""},
	{"hybrid", "", "", "", "[2 x 2 (ranks 0-1 2-3 | 0,2 1,3); parameters: 2 replicated]"},
	{"hybrid-half", "scale", "torch.Tensor.div", "is 2 times that of the whole program", ""},
	{"hybrid-alone", "replica", "torch.nn.functional.linear", "it is a partial sum over ranks 0,2, too", ""},
	{"among", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated]"},
	{"among-alone", "replica", "torch.Tensor.mul", "the gradient of unnamed parameter 1 is a partial sum", ""},
	{"follower", "", "", "", ""},
	{"follower-one", "replica", "torch.Tensor.mul_", "read slow, and only rank 0 updated it", ""},
	{"trust", "", "", "", ""},
	{"trust-alone", "replica", "torch.Tensor.sqrt", "each takes the norm of its part", ""},
	{"tokens", "", "", "", ""},
	{"tokens-other", "shard", "torch.nn.functional.cross_entropy", "rank 0 continue the tokens of rank 1", ""},
	{"update", "", "", "", ""},
	{"views", "", "", "", "[2 (ranks 0-1); parameters: 2 sharded along dimension 0]"},
	{"views-alone", "replica", "torch.Tensor.mul", "the gradient of gain is a partial sum", ""},
	{"zigzag", "", "", "", "[2 (ranks 0-1); parameters: 3 replicated]"},
	{"zigzag-inside", "", "", "", ""}, // a function puts the parts in order
	{"zigzag-kept", "collective", "__main__.InOrder.apply", "its backward pass lacks a reduce_scatter", ""},
	{"zigzag-alone", "replica", "torch.nn.functional.embedding", "the gradient of places is a partial sum", ""},
	{"zero-rate", "replica", "torch.Tensor.mul_", "by one line with different numbers", ""},
	{"zero-rolled", "collective", "torch.Tensor.addcdiv_", "the elements in another order", ""},
}

// TestCheck: what is wrong with recorded programs of two ranks, and nothing where nothing is. testdata/record.py made
// them.
func TestCheck(t *testing.T) {
	for _, tc := range trees {
		t.Run(tc.tree, func(t *testing.T) {
			trace, opt := read(t, tc.tree)
			if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(trace.Layouts); tc.layout != "" && got != tc.layout {
				t.Errorf("layout %s, want %s", got, tc.layout)
			}
			switch f := trace.First(); {
			case tc.kind == "" && f != nil:
				t.Errorf("found %s: %s", f.Call, f.Reason)
			case tc.kind == "":
			case f == nil:
				t.Errorf("nothing was found, want %s", tc.kind)
			case f.Rule != verdict.Parallel || f.Parallel != tc.kind || f.Call.Op != tc.op || len(f.Ranks) == 0 ||
				!strings.Contains(f.Reason, tc.says):
				t.Errorf("found %s %s of %s on %v: %s", f.Rule, f.Parallel, f.Call.Op, f.Ranks, f.Reason)
			}
		})
	}
}

// TestGaps: gradients that could not be compared, and results of unknown places, are said where nothing is found.
func TestGaps(t *testing.T) {
	for _, tc := range []struct{ tree, want string }{
		{"columns", "6 parameters whose gradient was not compared with what ranks 0-3 computed, " +
			"3 calls with results of which it is not known how they lie on ranks 0-3"},
		{"among", ""},
		{"hybrid", ""},
		{"follower", ""},
		{"data", ""},
		{"data-scaled", ""}, // what is wrong is said instead
		{"losses-sum", ""},
		{"losses-sum-seven", "1 loss that is a sum: nothing says that its gradients are to be divided by 7, as they are " +
			"on ranks 0-1"},
		{"own-batch", "1 call that each of ranks 0-1 makes of its own data, as a batch normalization without " +
			"synchronisation does: nothing says whether that of the whole data is meant, " +
			"2 calls with results of which it is not known how they lie on ranks 0-1"},
		{"own-mean", ""},
		{"own-micro", ""},
		{"own-micro-added", "2 losses of one line that are means, and whose gradients ranks 0-1 add up: nothing says " +
			"whether they should be divided by 2"},
		{"own-micro-last", "2 losses of one line that are divided by different numbers (40, 20): the microbatches count " +
			"with different weights"},
		{"owner-left", "2 parameters whose gradient was not compared with what ranks 0-1 computed, " +
			"2 gradients that ranks 0-1 add up though some of them hold more than the recorded calls made: what is left " +
			"of a backward pass before the recording, which was not set to zero"},
		{"ragged-alone", ""},
		{"replicas", ""},
		{"halo", "5 calls with results of which it is not known how they lie on ranks 0-1"},
	} {
		trace, opt := read(t, tc.tree)
		if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range trace.Unjoined {
			got = append(got, g.What)
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %q, want %q", tc.tree, text, tc.want)
		}
	}
}

// TestScale: a rank whose backward pass begins with another gradient of the loss is named.
func TestScale(t *testing.T) {
	trace, opt := read(t, "data")
	trace.Processes[1].Steps[0].Scale *= 2
	if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
		t.Fatal(err)
	}
	f := trace.First()
	if f == nil || f.Parallel != "scale" || f.Target != "grad_output[0]" || f.Call.Process.Rank != 1 ||
		!strings.Contains(f.Reason, "is 2 on rank 1 and 1 on rank 0") {
		t.Fatalf("first finding %+v", f)
	}
}

// TestMissing: gradients that ranks without a recording add to are not judged, and the layout says so.
func TestMissing(t *testing.T) {
	trace, opt := read(t, "data-scaled")
	for _, c := range trace.Calls() {
		if c.Entry.Group != nil {
			c.Entry.Group = []int{0, 1, 2}
		}
	}
	if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
		t.Fatal(err)
	}
	if f := trace.First(); f != nil {
		t.Errorf("found %s: %s", f.Call, f.Reason)
	}
	if got := fmt.Sprint(trace.Layouts); !strings.Contains(got, "rank 2 not recorded") {
		t.Errorf("layout %s", got)
	}
}

// TestMissingRank: without the recording of one rank, what the others do is not wrong, and the layout says which lacks.
func TestMissingRank(t *testing.T) {
	for _, tc := range []struct {
		tree    string
		missing int
		want    string
	}{{"grid", 3, "rank 3 not recorded"}, {"ring", 1, "rank 1 not recorded"}} {
		trace, opt := read(t, tc.tree)
		trace.Processes = slices.DeleteFunc(trace.Processes, func(p *step.Process) bool { return p.Rank == tc.missing })
		if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
			t.Fatal(err)
		}
		if f := trace.First(); f != nil {
			t.Errorf("%s: found %s: %s", tc.tree, f.Call, f.Reason)
		}
		if got := fmt.Sprint(trace.Layouts); !strings.Contains(got, tc.want) {
			t.Errorf("%s: layout %s", tc.tree, got)
		}
	}
}

// TestPlan: a layout that a user gives is the mesh, and parameters that lie otherwise are found.
func TestPlan(t *testing.T) {
	for _, tc := range []struct{ tree, text, kind, says string }{
		{"tensor", "mesh tp=2\nup tp=S(0) # columns\ndown tp=S(1); * R", "", "tp = 2 (ranks 0-1); parameters: 2 replicated"},
		{"tensor", "mesh tp=2; * R", "replica", "up differs between ranks 0-1"},
		{"tensor", "mesh tp=2; norm tp=S(0)", "shard", "ranks 0-1 hold the same norm"},
		{"tensor", "mesh tp=2; up tp=S(1)", "shard", ""},
		{"tensor", "mesh dp=1 tp=4", "error", "has 4 ranks: the recordings have 2"},
		{"tensor", "* R", "error", "want the dimensions first"},
		{"tensor", "mesh tp=2; up pp=S(0)", "error", "is no placement"},
		{"tensor", "mesh tp=0", "error", "is no dimension"},
		{"tensor", "", "error", "no mesh"},
	} {
		trace, opt := read(t, tc.tree)
		plan, err := parallel.ParsePlan(tc.text)
		if err == nil {
			err = parallel.Check(context.Background(), trace, opt, plan)
		}
		kind, got := "", fmt.Sprint(trace.Layouts)
		switch f := trace.First(); {
		case err != nil:
			kind, got = "error", err.Error()
		case f != nil:
			kind, got = f.Parallel, f.Reason
		}
		if kind != tc.kind || !strings.Contains(got, tc.says) {
			t.Errorf("%q: %s: %s", tc.text, kind, got)
		}
	}
}

// read takes the calls of a tree of testdata.
func read(t *testing.T, tree string) (*step.Trace, step.Options) {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt := step.Options{Options: replay.Options{Registry: ops.Default(), Tolerances: tol}}
	var calls []*step.Call
	for e, err := range capture.Scan(context.Background(), []string{"testdata/" + tree}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, step.Read(e, opt))
	}
	return step.New(calls), opt
}

// TestUnshared: parameters that ranks share out are no finding where the recording ends before they pass them on.
func TestUnshared(t *testing.T) {
	trace, opt := read(t, "owner")
	for _, p := range trace.Processes {
		last := len(p.Calls)
		for strings.Contains(p.Calls[last-1].Op, "broadcast") || strings.Contains(p.Calls[last-1].Op, "detach") {
			last--
		}
		p.Calls = p.Calls[:last]
	}
	if err := parallel.Check(context.Background(), trace, opt, nil); err != nil {
		t.Fatal(err)
	}
	if f := trace.First(); f != nil {
		t.Errorf("found %s: %s", f.Call, f.Reason)
	}
}
