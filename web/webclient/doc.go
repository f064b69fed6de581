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
package webclient
