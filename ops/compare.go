package ops

import "github.com/optool/optool/opdef"

var compareOps = []*opdef.Entry{}
