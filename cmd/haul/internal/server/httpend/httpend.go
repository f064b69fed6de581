// Package httpend contains code that the net/http servers share: their shutdown, and the check of
// the host names by which browsers reach them.
package httpend

import (
	"net"
	"net/http"
	"time"
)

const pollEvery = 5 * time.Millisecond

// Finish shuts down a server, beginning with its listener. Connections that were accepted before
// may receive their answers until grace has passed. A connection is closed as soon as it is idle,
// and at the latest when grace has passed. served is closed when Serve has returned, and open
// returns the number of open connections.
//
// [http.Server.Shutdown] is not used, because it closes a connection without an answer if the first
// request arrives during the shutdown. At a reload, the client would conclude that the server is
// down, although the successor serves.
func Finish(s *http.Server, l net.Listener, served <-chan struct{}, open func() int64, grace time.Duration) {
	_ = l.Close() // an error would mean that the listener is closed already
	<-served
	s.SetKeepAlivesEnabled(false)
	for end := time.Now().Add(grace); open() > 0 && time.Now().Before(end); {
		time.Sleep(pollEvery)
	}
	_ = s.Close() // errors of sockets do not matter, because the sockets are closed nevertheless
}
