package ops

import "github.com/optool/optool/opdef"

var queryOps = []*opdef.Entry{}
