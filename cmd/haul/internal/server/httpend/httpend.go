// Package httpend ends servers of package net/http.
package httpend

import (
	"net"
	"net/http"
	"time"
)

const pollEvery = 5 * time.Millisecond

// Finish closes a listener and ends its server. Connections that were accepted by then have the
// grace to get an answer; after that they are closed, as are those that are idle. served is
// closed when Serve has returned, and open returns how many connections there are.
//
// [http.Server.Shutdown] would close a connection whose first request comes during it, without
// an answer. At a reload the client would take that for the end of a server that serves on.
func Finish(s *http.Server, l net.Listener, served <-chan struct{}, open func() int64, grace time.Duration) {
	_ = l.Close() // it fails if it was closed before
	<-served
	s.SetKeepAlivesEnabled(false)
	for end := time.Now().Add(grace); open() > 0 && time.Now().Before(end); {
		time.Sleep(pollEvery)
	}
	_ = s.Close() // the error is of sockets that are gone either way
}
