// Package tftp is a TFTP server (RFC 1350, 2347, 2348, 2349, 7440).
//
// A [Config] with a [store.Store] serves its files:
//
//	root, err := os.OpenRoot("/srv/tftp")
//	if err != nil {
//		return err
//	}
//	c := tftp.Config{Store: localdir.New(root)}
//	return c.ListenAndServe(ctx, ":69")
//
// and ends when ctx does. In place of the store, Read and Write may answer each
// request as they like, knowing who asks and where:
//
//	c := tftp.Config{Read: func(ctx context.Context, r *tftp.Request) (store.File, error) {
//		return store.FromBytes(r.Name, configFor(r.Peer.Addr())), nil
//	}}
//
// Package tftpclient has the client.
//
// # How the server works
//
// Requests come in at port 69, are parsed there (requests.go), and go to the first
// shard that is not busy, with a window to the least busy one, or to the one that has
// the peer already (routes.go). It
// asks a guard whether this address may have a transfer (accept.go, guard.go). A shard is one event loop with one socket
// and all its transfers (shard.go). Calls that may wait for a disk, to open, to read
// data not in memory, to write and to publish, are made by a few workers (jobs.go,
// internal/fileio), so the loop never waits. Each transfer is a session (session.go) around a
// machine of package transfer. All packets that a turn of the loop sends gather in a
// batch (internal/packetio) and leave in one system call.
package tftp
