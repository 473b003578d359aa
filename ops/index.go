package ops

import "github.com/optool/optool/opdef"

var indexOps = []*opdef.Entry{}
