// Package gradients has operators of the dispatcher that another operator computes, or whose gradients it has:
// upsample_bilinear2d of interpolate, gelu_backward of gelu. torch.compile, and everything that runs graphs of the
// dispatcher, calls them; torchvision calls some in its own backward passes.
//
// A form declares an operator by the call whose results or gradients it gives. That call has values, bounds and others
// that are as right. Operators that are given results or statistics of the call are composed of what they are given.
package gradients
