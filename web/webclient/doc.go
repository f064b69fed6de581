// Package webclient reads and writes files on HTTP servers of any kind.
//
// A [Client] is a [store.Store] whose directories can be listed. It fetches a large file by several
// range requests at a time, as many as make it faster, and resumes after a lost connection. It
// uploads a file by one PUT or, to haul's own server, in parts that can be resumed.
//
//	c, err := webclient.New("https://example.com/files/", webclient.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	f, err := c.Open(ctx, "image")
//
// The first call that needs the server connects to it, and each later one connects again if the
// connection was lost. If the server does not come back within [Config.AbsenceTimeout], the call
// fails with [ErrLost]. To copy whole trees, give [Client.Tree] to package
// [github.com/haul-project/haul/store/treecopy].
//
// The page https://github.com/haul-project/haul/blob/main/docs/http.md explains what the client
// does on the wire, and lists its bounds.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
package webclient
