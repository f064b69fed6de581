package hooks

import (
	"errors"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

const (
	// maxRunning is how many hooks can run at the same time.
	maxRunning = 4

	// maxLine is the longest line between the server and its helper, in bytes. An event contains
	// four names of at most activity.maxName bytes. Each name is sent twice, once escaped and once
	// in base64, and the whole line is encoded in base64 again.
	maxLine = 512 << 10
)

// errNoLines says that the server could not receive the lines to a helper, for example because too
// many files are open.
var errNoLines = errors.New("take the lines to the helper")

// A setup holds the data that the supervisor and the helper need.
type setup struct {
	Hooks []Hook
	Keys  [][]byte        // the keys of the hooks; nil for a hook without a key
	User  *privilege.User // the user that the supervisor and the helper become
	Env   []string        // the environment of the programs that hooks run
}

// An order is the message by which the server asks the helper to run a hook. A server that somebody
// has taken over can send any order. So an order has no field by which it could choose the program,
// its arguments, or the name of a variable.
type order struct {
	Hook      int
	Event     []byte // the event as a line of JSON
	Variables activity.Variables
}

// An outcome is the helper's answer to an order.
type outcome struct {
	Result string // one of the words in results
	Error  string
}
