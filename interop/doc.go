// Package interop tests the haul binary against programs that others wrote.
//
// Every test is one line of a matrix: a client, a server, the options the
// client asks for, and a file of a size where protocols go wrong. The file must
// arrive byte for byte. The peers also meet each other, without haul, so that a
// fault of this harness cannot pass for one of haul's.
//
// SFTP has more to try than sizes and options. There each of our sides meets each
// peer's other side in a list of cases: what is a library does them as a driver
// (sftp_drivers_test.go, sftp_exercise_test.go), what is a program as its user
// would on the command line (sftp_tools_test.go, sftp_trade_test.go). Wires that
// are cut, servers with few sessions, certificates and the like are tests of
// their own, and in TestSFTPAgrees our server and OpenSSH's have to answer alike.
// sshd runs unpacked, as the user who runs the tests: sftp_sshd_test.go.
//
// One peer is systemd: on a machine of namespaces that it boots, the commands of the guide
// install the services (systemd_guide_test.go).
//
// scripts/install-peers fetches the peers. One that is absent is skipped, but
// where CI=true it is a failure: a skipped test proves nothing. The machine of the tests
// TestBootARM64 is fetched by its name alone: see boot_aarch64_test.go.
//
//	go test ./interop                     # against haul as it is built here
//	go test -tags haul_portable ./interop # against its portable UDP path
//	go test -short ./interop              # without the files of 65536 blocks, or of 34 MiB
//	go test -run SFTP ./interop           # SFTP alone
package interop
