// Goroutines is a program of the suite that serves as the documentation of package net shows: with
// a goroutine for each connection, and nothing else. See package tcpprog.
package main

import (
	"context"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("goroutines", serve) }

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, true, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	l, err := o.Listener(ctx)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			r.Serve(c)
		}()
	}
}
