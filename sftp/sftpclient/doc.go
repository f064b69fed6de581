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
// A transfer is slow because its sender waits. So the client keeps many
// requests on their way, as many as the path holds, which it finds out by
// itself; it uses more than one channel of a connection where one is too
// narrow, and then more than one connection. All that moves bytes does so by
// the same means, package pipeline: a whole file by [File.FetchTo] and
// [File.FillFrom], one large buffer by [File.ReadAt] and [File.WriteAt], many
// small ones by [File.Read] and [File.Write], which read ahead and write
// behind.
//
// Files are written in place by [Client.Create] and [Client.OpenFile]. Those
// which must appear only when they are complete, and then at once, are uploads
// of [Client.Store], a [store.Tree]. [Client.FS] is for the standard library.
//
// # Errors
//
// A server's refusal is a [*StatusError] in the chain, and to errors.Is an
// fs.ErrNotExist and the like. OpenSSH's server says "failure" of most else,
// so where a name is taken, the client looks and says fs.ErrExist. What a
// transfer fails of is a [*TransferError], which says which side has failed. A
// server that does not keep to the protocol is [ErrProtocol], one that is
// silent [ErrStalled], and a connection that is gone [ErrConnectionLost].
package sftpclient
