// Package collective judges calls between processes (torch.distributed) by what all ranks of their group recorded.
//
// MatchAll finds the calls of the ranks that belong together, or says why it cannot. Exchange.Judge compares what a
// rank has after the exchange with what the ranks put in. Sums, averages and products must match up to rounding in
// any order of summation; everything else must match exactly.
//
// # Non-goals
//
// No walking of trees. Whether the ranks of a program do the right thing together is decided by package step/parallel.
package collective
