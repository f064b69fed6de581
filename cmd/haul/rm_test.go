package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// endless has a directory in each directory, and a file that sorts before it.
type endless struct{ store.Tree }

func (e endless) OpenDir(ctx context.Context, _ string) (store.Entries, error) {
	return e.Tree.OpenDir(ctx, ".")
}

// An interrupter cancels a command after some lines of output.
type interrupter struct {
	bytes.Buffer
	lines int
	stop  context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	if i.lines--; i.lines == 0 {
		i.stop()
	}
	return i.Buffer.Write(b)
}

// rm -n prints names as they arrive, and keeps none of those that a server invents.
func TestRmDryRunWithoutEnd(t *testing.T) {
	l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { return endless{t} }}, map[string]string{"d/f": "", "d-": ""})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := interrupter{lines: 6, stop: stop}
	root := newRoot()
	root.SetArgs(l.args("rm", "-rn", "lab:d"))
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if _, err := root.ExecuteContextC(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(out.String(), "d/\nd/d-\nd/d/\nd/d/d-\n") {
		t.Errorf("prints %.100q, %v", out.String(), err)
	}
}
