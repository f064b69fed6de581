// Package dhcp parses and builds DHCP packets (RFC 2131), with the options that boot clients and
// servers use (RFC 2132, RFC 3046, RFC 3396, RFC 4578). It does not open sockets.
package dhcp
