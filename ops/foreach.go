package ops

import "github.com/optool/optool/opdef"

// foreachOps apply one op to every tensor of a list (torch._foreach_*).
var foreachOps []*opdef.Entry
