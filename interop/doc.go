// Package interop tests the haul binary against programs by others.
//
// Most tests are a line of a matrix: a client, a server, the options that the client requests,
// and a file whose size is at an edge of the protocol. The file must arrive unchanged. The peers
// are also tested with each other, without haul, so that a fault of these tests cannot be taken
// for one of haul.
//
// SFTP has more to test than sizes and options. Each of our sides is tested with each peer's
// other side in a list of cases: libraries run them as a driver (sftp_drivers_test.go,
// sftp_exercise_test.go), and programs as on a user's command line (sftp_tools_test.go,
// sftp_trade_test.go). Cut connections, servers with few sessions, certificates and the like have
// separate tests, and in TestSFTPAgrees our server and OpenSSH's have to give the same answers.
// sshd runs unpacked, as the user of the tests: sftp_sshd_test.go.
//
// One peer is systemd: it boots a machine made of namespaces, on which the commands of the guide
// install the services (systemd_guide_test.go).
//
// scripts/install-peers fetches the peers. Tests of an absent peer are skipped, but fail if
// CI=true, because a skipped test proves nothing. The machine of TestBootARM64 is fetched only by
// its name: see boot_aarch64_test.go.
//
//	go test ./interop                     # against haul as it is built here
//	go test -tags haul_portable ./interop # against its portable UDP path
//	go test -short ./interop              # without the files of 65536 blocks, or of 34 MiB
//	go test -run SFTP ./interop           # SFTP alone
package interop
