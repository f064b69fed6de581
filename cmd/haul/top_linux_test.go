package main

import (
	"context"
	"testing"
)

// On a terminal, "haul top" shows changes until it is interrupted.
func TestTopOnTerminal(t *testing.T) {
	url := startChild(t, childOptions{}, t.TempDir(), "--status", "127.0.0.1:0").statusURL()
	y := newTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		cmd := newRoot()
		cmd.SetArgs([]string{"top", url, "--every", "100ms"})
		_, err := execute(ctx, cmd, y.slave)
		ended <- err
		_, _ = y.slave.WriteString("END")
	}()
	y.awaitTimes(", up ", 3)
	interrupt()
	y.await("END")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
