// Package interop tests the haul binary against programs that others wrote.
//
// Every test is one line of a matrix: a client, a server, the options the
// client asks for, and a file of a size where protocols go wrong. The file must
// arrive byte for byte. The peers also meet each other, without haul, so that a
// fault of this harness cannot pass for one of haul's.
//
// scripts/install-peers fetches the peers. One that is absent is skipped, but
// where CI=true it is a failure: a skipped test proves nothing.
//
//	go test ./interop                     # against haul as it is built here
//	go test -tags haul_portable ./interop # against its portable UDP path
//	go test -short ./interop              # without the files of 65536 blocks
package interop
