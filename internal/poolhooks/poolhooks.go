// Package poolhooks changes how a tftpclient.Pool behaves. It is only for haul's own benchmarks. A
// context carries the hooks, so that Pool needs no exported field for them.
package poolhooks

import (
	"context"
	"errors"
)

// Hooks change how a Pool behaves on the network.
type Hooks struct {
	// NoDally makes a download end as soon as its last ACK is sent, unless the loop has lost a packet.
	// If that ACK is lost, nobody answers when the server repeats the last block.
	NoDally bool

	// Lose, if set, is called by loops for each datagram that is sent or received. It returns true
	// to drop the datagram.
	Lose func(sent bool) bool
}

// ErrVanish is an error that a BlockWriter may return. The transfer then ends without an ERROR
// packet, as if the machine had lost power.
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
