// Package gradients declares operators of the dispatcher that give the results or the gradients of another operator,
// such as upsample_bilinear2d and gelu_backward. torch.compile calls them, and everything else that runs graphs of the
// dispatcher. torchvision calls some in its own backward passes.
//
// A form declares an operator by the call whose results or gradients it gives. The values, bounds and alternatives of
// that call apply to it. Operators that receive results or statistics of the call are compositions of these.
package gradients
