package sftp

import (
	"reflect"
	"sync"
	"sync/atomic"
)

// With a window of 2 MiB, which is a constant in x/crypto, a client uploads no more than
// 100 MB/s at 20 ms. So a channel that carries bulk gets a wider one: see decision 021.
const (
	// channelWindow is how many bytes of data a channel of x/crypto holds.
	channelWindow = 2 << 20

	// wideWindow is the same for a channel with a wide window. One channel of a connection
	// may have one. With 8 MiB OpenSSH's client takes three times the processor time and is
	// slower: what its kernel's send buffer does not hold gathers in a buffer that it copies
	// each time that grows.
	wideWindow = 4 << 20

	// wideFrom is how many bytes a client has to send on a channel first: most never
	// send that many.
	wideFrom = 1 << 20

	// maxWide is how many channels of all connections have a wide window at a time. All
	// together they hold 64 MiB more than with the usual window.
	maxWide = 32
)

// wideWindows counts the channels with a wide window.
type wideWindows struct{ n atomic.Int64 }

// take counts another, unless there are too many.
func (w *wideWindows) take() bool {
	if w.n.Add(1) <= maxWide {
		return true
	}
	w.n.Add(-1)
	return false
}

func (w *wideWindows) give() { w.n.Add(-1) }

// widen gives a channel that carries bulk a wide window, if there is one to give. A
// channel that has ended gets none, though its session may still read what has come:
// nobody would give the window back. The caller holds quota.mu.
func (q *queue) widen() {
	r := q.quota
	if q.taken < wideFrom || q.window > channelWindow || r.wide != nil || r.fixed {
		return
	}
	if _, open := r.queues[q]; !open || !r.windows.take() {
		return
	}
	if !addWindow(q.ch, wideWindow-channelWindow) {
		r.windows.give()
		r.fixed = true
		return
	}
	q.window, r.wide = wideWindow, q
}

// narrow counts the wide window of a channel no longer, if it has one. The caller holds
// quota.mu.
func (q *queue) narrow() {
	if r := q.quota; r.wide == q {
		r.windows.give()
		r.wide = nil
	}
}

// addWindow adds bytes to what a channel of x/crypto counts as consumed, so that it offers
// them to the client with what is read next. From then on its window is so much wider, as
// it hands back what was read, and no more. It reports false, and does nothing, if the
// channel does not look as it does in the versions of x/crypto that are known.
func addWindow(channel any, bytes uint32) bool {
	v := reflect.ValueOf(channel)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return false
	}
	v = v.Elem()
	mu, window, consumed := fieldOf[sync.Mutex](v, "windowMu"), fieldOf[uint32](v, "myWindow"), fieldOf[uint32](v, "myConsumed")
	if mu == nil || window == nil || consumed == nil {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	if *window > channelWindow || *consumed > channelWindow-*window {
		return false // it counts something else by now
	}
	*consumed += bytes
	return true
}

// fieldOf returns a field of a struct that can be addressed, or nil if it has none of that
// name and type.
func fieldOf[T any](v reflect.Value, name string) *T {
	f, ok := v.Type().FieldByName(name)
	if !ok || len(f.Index) != 1 || f.Type != reflect.TypeFor[T]() {
		return nil
	}
	return (*T)(v.FieldByIndex(f.Index).Addr().UnsafePointer())
}
