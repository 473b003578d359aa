// Package gradients has operators that give gradients of others, gelu_backward of gelu: what torch.compile, and
// everything that runs graphs of the dispatcher, calls in a backward pass, and what torchvision calls in its own.
//
// Most are declared by the call whose gradients they give, which has values, bounds and others that are as right. Those
// that are given results or statistics of that call are composed of what they are given.
package gradients
