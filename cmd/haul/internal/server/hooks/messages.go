package hooks

import (
	"errors"

	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
)

const (
	// maxRunning is how many hooks run at a time.
	maxRunning = 4

	// maxLine is the longest line between the server and its helper, in bytes. An event contains
	// four names of at most activity.maxName bytes. Each name is sent twice, escaped and in base64,
	// and the whole is encoded in base64 again.
	maxLine = 512 << 10
)

// errNoLines reports that this process could not receive a helper's lines, perhaps because it has
// too many open files.
var errNoLines = errors.New("take the lines to the helper")

// A setup holds the data that the supervisor and the helper need.
type setup struct {
	Hooks []Hook
	Keys  [][]byte        // the keys of the hooks; nil for a hook without a key
	User  *privilege.User // the user to become
	Env   []string        // the environment of programs
}

// An order is the message by which the server makes the helper run a hook.
type order struct {
	Hook      int
	Event     []byte // a line of JSON
	Variables [][]byte
}

// An outcome is the answer to an order.
type outcome struct {
	Result string // one of results
	Error  string
}
