package storewire

import (
	"io/fs"
	"reflect"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// Version 3 can change owner and group only together, and both times only together. An attribute
// that should not change is sent with its present value.
func TestChangesOf(t *testing.T) {
	then, later := time.Unix(1000, 0), time.Unix(2000, 0)
	attrs := func(set func(a *wire.Attrs)) (a wire.Attrs) {
		set(&a)
		return a
	}
	now := InfoOf("f", attrs(func(a *wire.Attrs) {
		a.SetOwner(1, 2)
		a.SetTimes(then, then.Add(time.Second))
	}))
	id := func(n uint32) *uint32 { return &n }
	for name, test := range map[string]struct {
		attr store.Attr
		now  fs.FileInfo
		want wire.Attrs
	}{
		"nothing":             {store.Attr{}, now, wire.Attrs{}},
		"owner and group":     {store.Attr{UID: id(8), GID: id(9)}, nil, attrs(func(a *wire.Attrs) { a.SetOwner(8, 9) })},
		"owner":               {store.Attr{UID: id(8)}, now, attrs(func(a *wire.Attrs) { a.SetOwner(8, 2) })},
		"group":               {store.Attr{GID: id(9)}, now, attrs(func(a *wire.Attrs) { a.SetOwner(1, 9) })},
		"owner of who knows":  {store.Attr{UID: id(8)}, nil, wire.Attrs{}},
		"modified":            {store.Attr{ModTime: later}, now, attrs(func(a *wire.Attrs) { a.SetTimes(then, later) })},
		"accessed":            {store.Attr{AccessTime: later}, now, attrs(func(a *wire.Attrs) { a.SetTimes(later, then.Add(time.Second)) })},
		"modified of unknown": {store.Attr{ModTime: later}, nil, attrs(func(a *wire.Attrs) { a.SetTimes(later, later) })},
	} {
		if got := ChangesOf(test.attr, test.now); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
