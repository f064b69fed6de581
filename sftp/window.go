package sftp

import (
	"reflect"
	"sync"

	"github.com/haul-project/haul/internal/shares"
)

// The window of a channel in x/crypto is always 2 MiB. At a round trip of 20 ms, this limits
// uploads to 100 MB/s. So the server widens the window of a channel with a large upload: see
// docs/decisions/021-a-wider-window.md.
const (
	// channelWindow is the usual window of a channel in x/crypto, in bytes.
	channelWindow = 2 << 20

	// wideWindow is the enlarged window of a channel, in bytes. Each connection may have one. It is
	// not 8 MiB, because OpenSSH's client would then take three times the processor time and be
	// slower: data that does not fit into its kernel's send buffer collects in another buffer,
	// which the client copies whenever that buffer grows.
	wideWindow = 4 << 20

	// wideFrom is how many bytes a client has to send on a channel before it gets a wide window.
	// Most clients never send that many.
	wideFrom = 1 << 20

	// maxWide is how many channels of all connections may have a wide window at a time. Together
	// they can hold 64 MiB more than with usual windows. One address may have at most as many as are
	// free.
	maxWide = 32
)

var wideBound = shares.Bound{Most: maxWide, Times: 1}

// addWindow adds bytes to the number that a channel of x/crypto counts as consumed, so that the
// next read offers them to the client as window. The window then stays wider by that many bytes,
// because x/crypto renews exactly the bytes that were read. addWindow changes nothing and returns
// false if the channel's fields are not those of the known versions of x/crypto.
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
		return false // the fields seem to have another meaning in this version of x/crypto
	}
	*consumed += bytes
	return true
}

// fieldOf returns an addressable field of a struct, or nil if there is no field with that name and
// type.
func fieldOf[T any](v reflect.Value, name string) *T {
	f, ok := v.Type().FieldByName(name)
	if !ok || len(f.Index) != 1 || f.Type != reflect.TypeFor[T]() {
		return nil
	}
	return (*T)(v.FieldByIndex(f.Index).Addr().UnsafePointer())
}
