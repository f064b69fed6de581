// Nethttp is a program of the suite around net/http, with listeners of package net: see package
// tcpprog.
package main

import (
	"context"
	"net/http"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("nethttp", serve) }

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(true, true, false); err != nil {
		return err
	}
	l, err := o.Listener(ctx)
	if err != nil {
		return err
	}
	return tcpprog.ServeHTTP(ctx, o, func(s *http.Server) error { return s.Serve(l) })
}
