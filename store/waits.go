package store

import "context"

// waitsKey is the context key under which [WithWaits] stores its function.
type waitsKey struct{}

// WithWaits returns a context for the [Store] calls of a caller that has few workers. Before a
// store waits for another machine, it calls begin; when the wait is over, it calls the function
// that begin returned. In between, the caller can let another worker run.
func WithWaits(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitsKey{}, begin)
}

// BeginWait must be called by a [Store] before it waits for another machine, with the context of
// the call, or of the Open or Create that opened the file. When the wait is over, the store calls
// the returned function. See [WithWaits].
func BeginWait(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(waitsKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}
