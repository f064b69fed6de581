// Package httpend shuts down servers of package net/http.
package httpend

import (
	"net"
	"net/http"
	"time"
)

const pollEvery = 5 * time.Millisecond

// Finish closes a listener and ends its server. Connections that were accepted before have the time
// grace to receive an answer. After that, and as soon as they are idle, they are closed. served is
// closed when Serve has returned, and open returns the number of open connections.
//
// [http.Server.Shutdown] would close a connection without an answer if its first request arrives
// during the shutdown. At a reload, the client would conclude that the server has ended, although
// it continues to serve.
func Finish(s *http.Server, l net.Listener, served <-chan struct{}, open func() int64, grace time.Duration) {
	_ = l.Close() // it fails if it was closed before
	<-served
	s.SetKeepAlivesEnabled(false)
	for end := time.Now().Add(grace); open() > 0 && time.Now().Before(end); {
		time.Sleep(pollEvery)
	}
	_ = s.Close() // an error would concern sockets that are closed in any case
}
