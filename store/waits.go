package store

import "context"

// waitsKey is the key of the hook of [WithWaits].
type waitsKey struct{}

// WithWaits returns a context for the calls of a [Store] whose caller has few workers:
// a store that is going to wait for another machine calls begin, and end when it has
// what it waited for. Meanwhile the caller can have somebody else work in its place.
func WithWaits(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitsKey{}, begin)
}

// BeginWait is called by a [Store] before it waits for another machine, with the
// context of the call, or of the Open or the Create of the file. The store calls what it
// returns when the wait is over. See [WithWaits].
func BeginWait(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(waitsKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}
