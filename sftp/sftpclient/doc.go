// Package sftpclient reads and writes files on SFTP servers, over golang.org/x/crypto/ssh.
//
// [Dial] logs in and returns a [Client], which any number of goroutines may
// use:
//
//	c, err := sftpclient.Dial(ctx, "host:22", &ssh.ClientConfig{User: user, Auth: auth, HostKeyCallback: known}, sftpclient.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	f, err := c.Open(ctx, "log/today")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	n, err := f.FetchTo(ctx, local, 0) // or io.Copy(w, f), or f.ReadAt, or ...
//
// A transfer is slow when its sender waits. So the client keeps as many requests
// in flight as the path holds, which it measures. Where one channel of a connection
// is too slow, it uses several, and then several connections. All transfers do so: a
// whole file by [File.FetchTo] and [File.FillFrom], one large buffer by [File.ReadAt]
// and [File.WriteAt], and many small ones by [File.Read] and [File.Write], which read
// ahead and write behind.
//
// Files are written in place by [Client.Create] and [Client.OpenFile]. Those
// which must appear only when they are complete, and then at once, are uploads
// of [Client.Store], a [store.Tree]. [Client.FS] is for the standard library.
//
// # Errors
//
// A server's refusal is a [*StatusError] in the chain, and to errors.Is an
// fs.ErrNotExist and the like. OpenSSH's server answers most other refusals by
// "failure", so the client checks whether a name is taken and returns fs.ErrExist. A
// transfer fails with a [*TransferError], which says which side has failed. The error is
// [ErrProtocol] if the server violates the protocol, [ErrStalled] if it is silent, and
// [ErrConnectionLost] if the connection is gone.
package sftpclient
