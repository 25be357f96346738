<?php
// For PHP's built-in server: files as they are, addresses below /wiki/ and all others to MediaWiki.

$path = parse_url( $_SERVER['REQUEST_URI'], PHP_URL_PATH );
if ( $path !== '/' && !str_starts_with( $path, '/wiki/' ) && is_file( __DIR__ . $path ) ) {
	return false;
}
$_SERVER['SCRIPT_NAME'] = '/index.php';
$_SERVER['SCRIPT_FILENAME'] = __DIR__ . '/index.php';
require __DIR__ . '/index.php';
