<?php
// The wiki's settings: one SQLite file named by the environment, no cache outside it, short addresses, no mail.

if ( !defined( 'MEDIAWIKI' ) ) {
	exit;
}

$wgSitename = 'Arena Wiki';
$wgMetaNamespace = 'Arena_Wiki';
$wgScriptPath = '';
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgServer = WebRequest::detectServer();
$wgLanguageCode = 'en';
$wgLocaltimezone = 'UTC';

$wgDBtype = 'sqlite';
$wgDBname = 'wiki';
$wgSQLiteDataDir = dirname( getenv( 'SITE_DATABASE' ) );
$wgDBservers = [ [
	'type' => 'sqlite', 'dbname' => 'wiki', 'dbFilePath' => getenv( 'SITE_DATABASE' ), 'tablePrefix' => '', 'load' => 1,
	'flags' => DBO_DEFAULT, 'variables' => [ 'synchronous' => 'OFF' ],
] ];

$wgMainCacheType = CACHE_NONE;
$wgMessageCacheType = CACHE_NONE;
$wgParserCacheType = CACHE_NONE;
$wgSessionCacheType = CACHE_DB;
$wgUseDatabaseMessages = false;
$wgLocalisationCacheConf['store'] = 'array';
$wgLocalisationCacheConf['storeDirectory'] = __DIR__ . '/cache';
$wgJobRunRate = 0;

$wgSecretKey = str_repeat( '0123456789abcdef', 4 );
$wgUpgradeKey = '0123456789abcdef';
$wgAuthenticationTokenVersion = '1';
$wgPasswordPolicy['policies'] = [ 'default' => [ 'MinimalPasswordLength' => 1 ] ];
$wgPasswordDefault = 'pbkdf2';
$wgPasswordConfig['pbkdf2']['cost'] = '1000';
$wgRateLimits = [];
$wgEnableEmail = false;
$wgEnableUploads = false;
$wgRCMaxAge = 3600 * 24 * 3650;
$wgDefaultUserOptions['rcdays'] = 3650;
$wgRCLinkDays = [ 1, 7, 30, 3650 ];
$wgDefaultSkin = 'vector';
wfLoadSkin( 'Vector' );
