// Package poolhooks has what only haul's own benchmarks set of a tftpclient.Pool. A context carries it,
// so that it is no part of the Pool's fields.
package poolhooks

import (
	"context"
	"errors"
)

// Hooks change how a Pool behaves on the network.
type Hooks struct {
	// NoDally ends a download with its last ACK as long as the loop has lost no packet.
	// A server that does not get the ACK then repeats its last block in vain.
	NoDally bool

	// Lose, if set, is called for each datagram that is sent or has come, and drops it
	// by returning true. Loops call it.
	Lose func(sent bool) bool
}

// ErrVanish is what a BlockWriter returns to end a transfer without an ERROR packet, like a
// machine that loses power.
var ErrVanish = errors.New("client vanished")

type key struct{}

// With returns a context for the first transfer of a Pool, which the hooks are then for.
func With(ctx context.Context, h Hooks) context.Context { return context.WithValue(ctx, key{}, h) }

// From returns the hooks that With put into a context. Without any, all are zero.
func From(ctx context.Context) Hooks {
	h, _ := ctx.Value(key{}).(Hooks)
	return h
}
