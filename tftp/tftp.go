// Package tftp is a TFTP server (RFC 1350, 2347, 2348, 2349, 7440).
//
// A [Config] with a [github.com/haul-project/haul/store.Store] serves its files:
//
//	root, err := os.OpenRoot("/srv/tftp")
//	if err != nil {
//		return err
//	}
//	c := tftp.Config{Store: localdir.New(root)}
//	return c.ListenAndServe(ctx, ":69")
//
// ListenAndServe returns when ctx is cancelled. Instead of a store, a Config may have the functions
// Read and Write. They answer each request, and know which client sent it, and to which address:
//
//	c := tftp.Config{Read: func(ctx context.Context, r *tftp.Request) (store.File, error) {
//		return store.FromBytes(r.Name, configFor(r.Peer.Addr())), nil
//	}}
//
// [Config.Listen] opens the sockets and returns a [Server]. A program that uses it can find out the
// address, count transfers, or pass the sockets to another process.
//
// Package [github.com/haul-project/haul/tftp/tftpclient] is the client. The page
// https://github.com/haul-project/haul/blob/main/docs/tftp.md lists each rule of the RFCs, each
// deviation from them, and each bound.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so. The
// packets that a server sends follow the RFCs, so such changes do not affect them.
//
// # How the server works
//
// Requests arrive on port 69, where they are received and parsed (requests.go). If no shard serves
// the peer yet, the request is passed to the first shard that is not busy, or to the least busy
// shard if the request asks for a window (routes.go). The shard asks a guard whether this address
// may have a transfer (accept.go, guard.go). A shard is one event loop with one socket and all its
// transfers (shard.go, turn.go). A few workers make all calls that may wait for a disk: they open
// files, read data that is not in memory, write and publish (jobs.go, internal/fileio). So the loop
// never waits. Each transfer is a reading or a writing (reading.go, writing.go), with a session
// (session.go) and a state machine of the protocol (internal/protocol). A batch (internal/packetio)
// collects all packets of a turn, and sends them in one system call.
package tftp
