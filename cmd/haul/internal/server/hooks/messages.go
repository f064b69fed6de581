package hooks

import "github.com/haul-project/haul/cmd/haul/internal/system/privilege"

// A setup holds the data that the supervisor and the helper need.
type setup struct {
	Hooks []Hook
	Keys  [][]byte        // of the hooks; nil for a hook without a key
	User  *privilege.User // the user to become
	Env   []string        // the environment of programs
}

// An order makes the helper run a hook. The server sends it.
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
