package store

import "context"

// waitsKey is the context key for the function of [WithWaits].
type waitsKey struct{}

// WithWaits returns a context for calls of a [Store] by a caller that has few workers. The store
// calls begin before it waits for another machine, and end when the wait is over. Meanwhile the
// caller can let another worker run.
func WithWaits(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitsKey{}, begin)
}

// BeginWait is called by a [Store] before it waits for another machine. ctx is the context of the
// call, or of the Open or Create of the file. The store calls end when the wait is over. See
// [WithWaits].
func BeginWait(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(waitsKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}
