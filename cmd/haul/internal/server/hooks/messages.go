package hooks

import "github.com/haul-project/haul/cmd/haul/internal/system/privilege"

// A setup is what the processes below the server need to know.
type setup struct {
	Hooks []Hook
	Keys  [][]byte        // of the hooks; nil for those without one
	User  *privilege.User // to become
	Env   []string        // of programs
}

// An order is from the server to its helper: to run a hook.
type order struct {
	Hook      int
	Event     []byte // as a line of JSON
	Variables [][]byte
}

// An outcome is the answer to an order.
type outcome struct {
	Result string // one of results
	Error  string
}
