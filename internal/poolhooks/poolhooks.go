// Package poolhooks changes how a tftpclient.Pool behaves, for haul's own benchmarks only. A
// context carries the hooks, so that Pool needs no public field for them.
package poolhooks

import (
	"context"
	"errors"
)

// Hooks change how a Pool behaves on the network.
type Hooks struct {
	// NoDally ends a download with its last ACK, unless the loop has lost a packet. If that ACK is
	// lost, the server repeats its last block without an answer.
	NoDally bool

	// Lose, if set, is called by loops for each datagram that is sent or received. It returns true
	// to drop the datagram.
	Lose func(sent bool) bool
}

// ErrVanish, returned by a BlockWriter, makes a transfer end without an ERROR packet, as if the
// machine had lost power.
var ErrVanish = errors.New("client vanished")

type key struct{}

// With returns a context that carries hooks. A Pool uses the hooks in the context of its first
// transfer.
func With(ctx context.Context, h Hooks) context.Context { return context.WithValue(ctx, key{}, h) }

// From returns the hooks that With put into a context, or the zero Hooks.
func From(ctx context.Context) Hooks {
	h, _ := ctx.Value(key{}).(Hooks)
	return h
}
