<?php
/**
 * Fill the wiki: accounts, then pages with their revisions, as `pages.py` prints them (a JSON file).
 * Refuses to run twice. Usage: php seed.php pages.json
 */

use MediaWiki\Auth\AuthManager;
use MediaWiki\MediaWikiServices;
use MediaWiki\Revision\SlotRecord;

require_once __DIR__ . '/maintenance/Maintenance.php';

class FillWiki extends Maintenance {
	private const PASSWORD = 'password123';

	public function __construct() {
		parent::__construct();
		$this->addArg( 'pages', 'JSON file of pages.py' );
	}

	public function execute() {
		$data = json_decode( file_get_contents( $this->getArg( 0 ) ), true, 512, JSON_THROW_ON_ERROR );
		if ( Title::newFromText( 'List of settlements' )->exists() ) {
			$this->fatalError( 'the wiki is filled already; use reset to restore it' );
		}
		$users = [];
		foreach ( $data['users'] as $name ) {
			$users[$name] = $this->account( $name );
		}
		// The installer's own front page must be older than ours.
		$this->getDB( DB_PRIMARY )->update( 'revision', [ 'rev_timestamp' => '20200101000000' ], [ 'rev_id' => 1 ], __METHOD__ );
		$this->getDB( DB_PRIMARY )->delete( 'recentchanges', [ 'rc_this_oldid' => 1 ], __METHOD__ );
		$revisions = 0;
		foreach ( $data['pages'] as $page ) {
			$revisions += $this->store( Title::newFromText( $page['title'] ), $page['revisions'], $users );
		}
		$this->output( 'wiki: ' . count( $users ) . ' users, ' . count( $data['pages'] ) . " pages, $revisions revisions\n" );
	}

	private function account( string $name ): User {
		$user = User::newFromName( $name );
		if ( !$user->getId() ) {
			MediaWikiServices::getInstance()->getAuthManager()->autoCreateUser( $user, AuthManager::AUTOCREATE_SOURCE_MAINT, false );
		}
		$credentials = [ 'username' => $user->getName(), 'password' => self::PASSWORD, 'retype' => self::PASSWORD ];
		$status = $user->changeAuthenticationData( $credentials );
		if ( !$status->isGood() ) {
			$this->fatalError( $status->getMessage( false, false, 'en' )->text() );
		}
		return $user;
	}

	private function store( Title $title, array $revisions, array $users ): int {
		$config = MediaWikiServices::getInstance()->getMainConfig();
		$before = null;
		foreach ( $revisions as $data ) {
			$revision = new WikiRevision( $config );
			$revision->setContent( SlotRecord::MAIN, ContentHandler::makeContent( $data['text'], $title ) );
			$revision->setTitle( $title );
			$revision->setUserObj( $users[$data['user']] );
			$revision->setComment( $data['comment'] );
			$revision->setTimestamp( $data['time'] );
			$old = $title->getLatestRevID( Title::READ_LATEST );
			if ( !$revision->importOldRevision() ) {
				$this->fatalError( "the page {$title->getPrefixedText()} could not be stored" );
			}
			$new = $title->getLatestRevID( Title::READ_LATEST );
			if ( $before === null ) {
				RecentChange::notifyNew( $data['time'], $title, false, $users[$data['user']], $data['comment'], false, '', $revision->getSize(), $new, 1 );
			} else {
				RecentChange::notifyEdit( $data['time'], $title, false, $users[$data['user']], $data['comment'], $old, $before['time'], false, '',
					strlen( $before['text'] ), $revision->getSize(), $new, 1 );
			}
			$before = $data;
		}
		return count( $revisions );
	}
}

$maintClass = FillWiki::class;
require_once RUN_MAINTENANCE_IF_MAIN;
