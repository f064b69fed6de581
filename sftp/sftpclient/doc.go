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
// A transfer is slow when its sender waits. So the client keeps as many requests in flight
// as the path holds, which it measures. Where one SFTP session of a connection is too slow,
// it uses several, and then several connections. All transfers do so: a whole file by
// [File.FetchTo] and [File.FillFrom], one large buffer by [File.ReadAt] and [File.WriteAt],
// and many small ones by [File.Read] and [File.Write], which read ahead and write behind.
//
// [Client.Create] and [Client.OpenFile] write files in place. An upload of [Client.Store]
// appears under its name when it is complete. [Client.FS] is for the standard library.
//
// The client keeps to the rules of
// https://github.com/haul-project/haul/blob/main/docs/sftp.md, section 9.
//
// # Errors
//
// If a server refuses a request, the error has a [*StatusError] in its chain, and errors.Is
// recognizes it as fs.ErrNotExist, fs.ErrExist, fs.ErrPermission or a similar error. os.IsNotExist
// and similar functions do not recognize it: they know only errors of system calls. OpenSSH's
// server gives no reason for most refusals, so the client checks whether a name is taken and
// returns fs.ErrExist. A transfer fails with a [*TransferError], which says which side has failed.
// The error is [ErrProtocol] if the server violates the protocol, [ErrStalled] if it is silent, and
// [ErrConnectionLost] if the connection is gone.
//
// # Stability
//
// Exported names stay within a minor version, such as 0.9. Until 1.0 a new minor version may change
// them: see https://github.com/haul-project/haul/blob/main/docs/versions.md. Errors are for people,
// and their texts may change at any time.
package sftpclient
